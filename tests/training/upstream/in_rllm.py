"""Run by a Python that has Hydra, rLLM's and verl's files: rLLM's configuration, on runs and by itself.

python in_rllm.py check FILE…    one JSON object: file of overrides as JSON → Hydra's error, or null
python in_rllm.py record         one JSON object: settings, conditions of saving, and the names that a run logs
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from in_verl import folder_of
from names_in_source import conditions_in, names_in
from omegaconf import DictConfig, OmegaConf

TRAINER = folder_of("rllm") / "trainer"
VERL = f"hydra.searchpath=[file://{folder_of('verl')}/trainer/config]"
"""rLLM's own `pkg://verl.trainer.config` imports verl, which needs torch."""
ON_TINKER = "rllm/backend=tinker"


def composed(overrides: Sequence[str]) -> DictConfig:
    """The configuration of a run; `mul` is rLLM's own resolver (trainer/verl/train_agent_ppo.py)."""
    OmegaConf.register_new_resolver("mul", lambda one, other: int(one) * int(other), replace=True)
    config = "unified" if ON_TINKER in overrides else "agent_ppo_trainer"
    with initialize_config_dir(str(TRAINER / "config"), version_base=None):
        return compose(config, overrides=[*overrides, VERL])


def error_of(path: Path) -> str | None:
    """What Hydra raises for the overrides of a run."""
    try:
        OmegaConf.to_container(composed(json.loads(path.read_text("utf-8"))), resolve=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def record() -> dict[str, Any]:
    """The settings of both trainers, when they save and end, and the names of their metrics."""
    ppo, tinker = TRAINER / "verl" / "agent_workflow_trainer.py", TRAINER / "tinker"
    shared = names_in(TRAINER / "algorithms" / "advantage.py")
    evaluated = {f"val/{name}" for name in shared if name.startswith("reward/")}
    on_tinker = shared | evaluated | names_in(tinker / "tinker_metrics_utils.py")
    on_verl = names_in(ppo, "fit_agent", "_validate_agent")
    return {
        "settings on verl": sorted(settings_of(composed([]))),
        "settings on Tinker": sorted(settings_of(composed([ON_TINKER]))),
        "saves on verl if": conditions_in(ppo, "fit_agent", "save_freq"),
        "ends on verl if": conditions_in(ppo, "fit_agent", "total_training_steps"),
        "saves at the end on Tinker if": conditions_in(tinker / "tinker_backend.py", "on_train_end", "save_freq"),
        "logged on verl": sorted(name for name in on_verl if "/" in name),
        "logged on Tinker": sorted(name for name in on_tinker if "/" in name),
    }


def settings_of(config: Any, before: str = "") -> Iterator[str]:
    """The dotted paths of a configuration; an empty table is one."""
    for key in config:
        value = config._get_node(key)
        if isinstance(value, DictConfig) and not value._is_none() and not value._is_missing() and len(value):
            yield from settings_of(value, f"{before}{key}.")
        else:
            yield f"{before}{key}"


if __name__ == "__main__":
    found = record() if sys.argv[1] == "record" else {name: error_of(Path(name)) for name in sys.argv[2:]}
    print(json.dumps(found))
