"""Where a run begins: behind its own last checkpoint, or at one that it is told to begin from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envops.training.learner.checkpoints import is_whole, last_checkpoint, step_of
from envops.training.learner.settings import UnfitSettings

IDENTITY = "run.json"
BEGUN_FROM = "begun_from"
"""In that file, beside the identity: `rollouts.resume_from` as it was when the run began there."""


@dataclass(frozen=True)
class Beginning:
    """A run's folder, and what it is asked to be."""

    root: Path
    folder: Path
    """Of the run's checkpoints."""
    identity: Mapping[str, Any]
    """What must be the same for a checkpoint to be gone on with."""
    resume_from: str | None = None
    """A checkpoint to begin from, below `root`."""

    def checkpoint(self, max_steps: int) -> Path | None:
        """The checkpoint to go on from; one of `max_steps` is the run's own. Raises `UnfitSettings`."""
        own = last_checkpoint(self.folder)
        if own is not None:
            filed = self._filed()
            self._same_run(filed)
            self._not_beyond(own, filed)
            return own
        if self.resume_from is None:
            return None
        given = self.root / self.resume_from
        if not is_whole(given):
            raise UnfitSettings(f"rollouts.resume_from: {given} is no checkpoint of TRL's")
        if step_of(given) >= max_steps:
            told = f"is of step {step_of(given)}, and the run ends after step {max_steps}: raise max_steps"
            raise UnfitSettings(f"rollouts.resume_from: {given} {told}")
        return given

    def file(self) -> None:
        """Write down what the run is and where it began."""
        going_on = last_checkpoint(self.folder) is not None
        begun = self.resume_from or (self._filed().get(BEGUN_FROM) if going_on else None)
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**self.identity, BEGUN_FROM: begun}, indent=2, sort_keys=True, default=str)
        (self.folder / IDENTITY).write_text(text + "\n", encoding="utf-8")

    def _filed(self) -> dict[str, Any]:
        """What the folder says of its run; nothing where it does not say."""
        try:
            filed = json.loads((self.folder / IDENTITY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return filed if isinstance(filed, dict) else {}

    def _same_run(self, filed: Mapping[str, Any]) -> None:
        if not filed:
            return
        before = _flat({key: value for key, value in filed.items() if key != BEGUN_FROM})
        now = _flat(json.loads(json.dumps(self.identity, default=str)))
        if changed := sorted(key for key in {*before, *now} if before.get(key) != now.get(key)):
            raise UnfitSettings(
                f"{self.folder} holds a run with other settings ({', '.join(changed)}): move it away, or give this one "
                "another name; only max_steps and how often it is saved and evaluated may change on the way"
            )

    def _not_beyond(self, own: Path, filed: Mapping[str, Any]) -> None:
        """A run that began at the checkpoint asked for goes on; any other is not where it should begin."""
        if self.resume_from is None or self.resume_from == filed.get(BEGUN_FROM):
            return
        given = self.root / self.resume_from
        if given.resolve() != own.resolve():
            raise UnfitSettings(
                f"rollouts.resume_from: {given} is not where this run goes on, which is {own}. To go back to it, move "
                f"the other checkpoints out of {self.folder}; to go on, take resume out; or give the run another name"
            )


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of each table under `table.key`."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
    return found
