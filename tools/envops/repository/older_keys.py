"""Older names of keys of registry.yaml, which are still read.

`group_size` is the name of verifiers and prime-rl. The registry called it `rollouts_per_example` before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from envops.repository.document import Document, Steps, place
from envops.repository.problem import Problem

OLDER: Mapping[str, str] = {"rollouts_per_example": "group_size"}
"""The older name of a key of a run, or of one of its environments → the name today."""
_FIRST_NAMES: Mapping[str, str] = {today: older for older, today in OLDER.items()}


class OlderName(UserWarning):
    """The registry has an older name of a key; the message has the place and the name to write."""


@dataclass(frozen=True)
class CurrentKeys:
    """The registry with today's names, and the places of older ones."""

    document: Document
    older: tuple[Problem, ...]
    """One for each older name, in the order of the file."""

    @property
    def note(self) -> str:
        """The older names in one sentence; empty if there are none."""
        if not self.older:
            return ""
        first, more = self.older[0], len(self.older) - 1
        others = f" (and {more} more)" if more else ""
        return f"{first.file}:{first.line} {first.path}: {first.message}; write {first.nearest}{others}"


def with_current_keys(document: Document) -> CurrentKeys:
    """The registry with older keys of runs renamed. A key under both names is a problem of the document."""
    found = list(_older_keys(document))
    if not found:
        return CurrentKeys(document, ())
    older, twice = [], []
    for steps, holder in found:
        name = str(steps[-1])
        line, current = document.line(steps), OLDER[name]
        if current in holder:
            other = document.line((*steps[:-1], current))
            message = f"is the older name of {current}, which is on line {other}"
            twice.append(Problem(document.file, line, message, place(steps), fix=f"keep {current}"))
        else:
            message = f"is the older name of {current}"
            older.append(Problem(document.file, line, message, place(steps), nearest=current))
    lines = {_renamed(steps): line for steps, line in document.lines.items()}
    runs = {name: _renamed_run(run) for name, run in document.data["runs"].items()}
    problems = (*document.problems, *twice)
    older.sort(key=lambda each: each.line or 0)
    changed = replace(document, data={**document.data, "runs": runs}, lines=lines, problems=problems)
    return CurrentKeys(changed, tuple(older))


def with_first_names(declared: Mapping[str, Any]) -> dict[str, Any]:
    """A run with the keys that it had first, so that its identity does not depend on the name that the file uses."""
    renamed: dict[str, Any] = _renamed_run(declared, _FIRST_NAMES)
    return renamed


def _older_keys(document: Document) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """The place of each older key, and the mapping that has it."""
    runs = document.data.get("runs") if isinstance(document.data, dict) else None
    for name, run in runs.items() if isinstance(runs, dict) else ():
        for steps, holder in _holders(("runs", name), run):
            yield from (((*steps, key), holder) for key in OLDER if key in holder)


def _holders(steps: Steps, run: Any) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """The mappings of a run in which a renamed key may be: its own, and those of its environments."""
    if not isinstance(run, dict):
        return
    yield steps, run
    evaluation = run.get("eval")
    within = [((*steps, "environments"), run.get("environments"))]
    if isinstance(evaluation, dict):
        within.append(((*steps, "eval", "environments"), evaluation.get("environments")))
    for place_of, sources in within:
        for index, source in enumerate(sources if isinstance(sources, list) else ()):
            if isinstance(source, dict):
                yield (*place_of, index), source


def _renamed(steps: Steps) -> Steps:
    """The place under today's name; places below tables with arbitrary keys stay."""
    own = len(steps) == 3 or (len(steps) > 3 and steps[-3] == "environments" and len(steps) in (5, 6))
    if steps[:1] != ("runs",) or not own:
        return steps
    return (*steps[:-1], OLDER.get(str(steps[-1]), steps[-1]))


def _renamed_run(run: Any, names: Mapping[str, str] = OLDER) -> Any:
    if not isinstance(run, dict):
        return run
    changed = _renamed_keys(run, names)
    if isinstance(run.get("environments"), list):
        changed["environments"] = [_renamed_keys(each, names) for each in run["environments"]]
    evaluation = run.get("eval")
    if isinstance(evaluation, dict) and isinstance(evaluation.get("environments"), list):
        sources = [_renamed_keys(each, names) for each in evaluation["environments"]]
        changed["eval"] = {**evaluation, "environments": sources}
    return changed


def _renamed_keys(holder: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(holder, dict):
        return holder
    return {names.get(key, key): value for key, value in holder.items()}
