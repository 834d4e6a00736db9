"""Run by a Python that has a checkout of SkyRL: its own configuration, on runs and by itself.

python in_skyrl.py check FILE…    one JSON object: file of arguments as JSON → SkyRL's error, or null
python in_skyrl.py record         one JSON object: settings, when it saves, and the names that a run logs
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import skyrl
from names_in_source import conditions_in, names_in
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.utils.utils import validate_cfg

SOURCE = Path(skyrl.__path__[0])


def error_of(path: Path) -> str | None:
    """What SkyRL raises for the arguments of a run, where its entry point reads and validates them."""
    os.environ.setdefault("WANDB_API_KEY", "none")  # only its presence is validated
    try:
        validate_cfg(SkyRLTrainConfig.from_cli_overrides(json.loads(path.read_text("utf-8"))))
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return None


def record() -> dict[str, Any]:
    """The settings, when the trainer saves at the end, and the names of its metrics."""
    train = SOURCE / "train"
    worker = SOURCE / "backends" / "skyrl_train" / "workers" / "worker.py"
    of_policy = {name for name in names_in(worker) if name.startswith("policy_")}
    names = set().union(*(names_in(train / each) for each in ("trainer.py", "evaluate.py", "generators/utils.py")))
    policy = {f"policy/{name}" for name in of_policy | (names & {"grad_norm"})}
    return {
        "settings": sorted(settings_of(SkyRLTrainConfig())),
        "saves at the end if": conditions_in(train / "trainer.py", "train", "will_save_ckpts"),
        "logged": sorted({*policy, *(name for name in names if "/" in name)}),
    }


def settings_of(config: Any, before: str = "") -> Iterator[str]:
    """The dotted paths of a configuration."""
    for each in dataclasses.fields(config):
        value = getattr(config, each.name)
        if dataclasses.is_dataclass(value):
            yield from settings_of(value, f"{before}{each.name}.")
        else:
            yield f"{before}{each.name}"


if __name__ == "__main__":
    found = record() if sys.argv[1] == "record" else {name: error_of(Path(name)) for name in sys.argv[2:]}
    print(json.dumps(found))
