"""Checkpoints of a run as transformers writes them: `checkpoint-N`, whole once it holds its state."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

STATE = "trainer_state.json"
"""Written last: a checkpoint without it was cut off."""
TRAINED = "trained.json"
"""In a finished model: the step that it is of."""
OF_THE_TRAINER = ("optimizer*", "scheduler*", "scaler*", "rng_state*", STATE, "training_args.bin")
NAME = re.compile(r"checkpoint-(\d+)")


def is_whole(checkpoint: Path) -> bool:
    """Whether it was written to its end."""
    return (checkpoint / STATE).is_file()


def last_checkpoint(folder: Path) -> Path | None:
    """The latest whole checkpoint of a run, `None` where there is none."""
    found = [path for path in folder.glob("checkpoint-*") if NAME.fullmatch(path.name) and is_whole(path)]
    return max(found, key=lambda path: int(path.name.partition("-")[2]), default=None)


def step_of(checkpoint: Path | None) -> int:
    """The step after which it was written; 0 for none."""
    if checkpoint is None:
        return 0
    return int(json.loads((checkpoint / STATE).read_text(encoding="utf-8"))["global_step"])


def finished_model(checkpoint: Path, final: Path) -> Path:
    """The checkpoint's model or adapter in `final`, whole or not there: it is made aside and renamed.

    One that is there already is left alone where it is of the same step.
    """
    if _step_of_model(final) == step_of(checkpoint):
        return final
    aside, former = final.with_name(f"{final.name}.new"), final.with_name(f"{final.name}.old")
    for left in (aside, former):
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(checkpoint, aside, ignore=shutil.ignore_patterns(*OF_THE_TRAINER))
    (aside / TRAINED).write_text(json.dumps({"step": step_of(checkpoint)}) + "\n", encoding="utf-8")
    if final.exists():
        final.replace(former)
    aside.replace(final)
    shutil.rmtree(former, ignore_errors=True)
    return final


def _step_of_model(final: Path) -> int | None:
    """The step that a finished model is of, `None` where none is there or it does not say."""
    try:
        return int(json.loads((final / TRAINED).read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
