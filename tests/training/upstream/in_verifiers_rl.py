"""Run by a Python that has the last verifiers with a trainer: its settings, on runs and by themselves.

python in_verifiers_rl.py check FILE…    one JSON object: compiled TOML → the trainer's error, or null
python in_verifiers_rl.py record         one JSON object: settings, and the names that a run logs
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from in_verl import folder_of
from names_in_source import names_in

TRAINER = folder_of("verifiers") / "rl" / "trainer"


def settings_class() -> Any:
    """RLConfig, by its file: its package imports vLLM's client and DeepSpeed."""
    found = spec_from_file_location("rl_config", TRAINER / "config.py")
    assert found is not None
    assert found.loader is not None
    module = sys.modules["rl_config"] = module_from_spec(found)
    found.loader.exec_module(module)
    return module.RLConfig


def error_of(path: Path) -> str | None:
    """What the trainer raises for the settings of a run, as verifiers/scripts/train.py hands them over."""
    given = tomllib.loads(path.read_text("utf-8"))["trainer"]["args"]
    try:
        settings_class()(**given, use_cpu=True, bf16=False)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def record() -> dict[str, Any]:
    """The settings by name, and what a step writes down; transformers adds `loss`, `grad_norm` and `learning_rate`."""
    import transformers

    names = names_in(TRAINER / "orchestrator.py", "generate_batch") | names_in(TRAINER / "trainer.py", "training_step")
    loop = names_in(Path(transformers.__path__[0], "trainer.py"), "_maybe_log_save_evaluate")
    return {
        "settings": sorted(each.name for each in dataclasses.fields(settings_class())),
        "logged": sorted({*names, *(loop & {"loss", "grad_norm", "learning_rate"})}),
    }


if __name__ == "__main__":
    found = record() if sys.argv[1] == "record" else {name: error_of(Path(name)) for name in sys.argv[2:]}
    print(json.dumps(found))
