"""Checkpoints of a run as transformers writes them: `checkpoint-N`, whole once it holds its state."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

STATE = "trainer_state.json"
"""Written last: a checkpoint without it was cut off."""
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
    """The model of the last checkpoint as what a finished run leaves, where that was not written any more."""
    if not final.is_dir():
        aside = final.with_name(f"{final.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(checkpoint, aside, ignore=shutil.ignore_patterns(*OF_THE_TRAINER))
        aside.replace(final)
    return final
