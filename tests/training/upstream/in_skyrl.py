"""Run by a Python that has a checkout of SkyRL: its own configuration, on runs and by itself.

python in_skyrl.py check FILE…    one JSON object: file of arguments as JSON → SkyRL's error, or null
python in_skyrl.py record         one JSON object: settings, when it saves, and the names that a run logs
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import skyrl
from names_in_source import conditions_in, names_in
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.generators.utils import get_rollout_metrics
from skyrl.train.utils.trainer_utils import dump_per_dataset_eval_results
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
    names = set().union(*(names_in(train / each) for each in ("trainer.py", "evaluate.py"))) | emitted()
    policy = {f"policy/{name}" for name in of_policy | (names & {"grad_norm"})}
    return {
        "settings": sorted(settings_of(SkyRLTrainConfig())),
        "saves at the end if": conditions_in(train / "trainer.py", "train", "will_save_ckpts"),
        "logged": sorted({*policy, *(name for name in names if "/" in name)}),
        "evaluated": evaluated(),
    }


def emitted() -> set[str]:
    """The names of what a step samples, by SkyRL's own function."""
    times = [1.0, 2.0]
    splits = {"llm": times, "env": times}
    return set(
        get_rollout_metrics(
            [[1, 2], [3]],
            [1.0, 0.0],
            loss_masks=[[1, 1], [1]],
            trajectory_completion_times=times,
            trajectory_time_splits=splits,
        )
    )


class Letters:
    """A tokenizer of characters."""

    def decode(self, tokens: list[int]) -> str:
        return "".join(map(chr, tokens))


def evaluated() -> list[str]:
    """The lines that SkyRL dumps of an evaluation on verifiers: rewards of tokens and of a whole reply."""
    asked, replies = [[*map(ord, "What is 1 + 1?")]] * 2, [[*map(ord, each)] for each in ("<2>", "3")]
    row = {"environment": "sums", "example_id": 4, "answer": "2", "task": "default"}
    with tempfile.TemporaryDirectory() as folder:
        dump_per_dataset_eval_results(
            Path(folder),
            Letters(),  # type: ignore[arg-type]
            {
                "prompt_token_ids": asked,
                "response_ids": replies,
                "rewards": [[0.0, 0.0, 1.0], 0.25],
                "stop_reasons": ["stop"] * 2,
            },  # type: ignore[typeddict-item]
            ["sums"] * 2,
            ["verifiers"] * 2,
            [{"verifiers": row}] * 2,
            {"eval/all/avg_score": 0.625},
        )
        return Path(folder, "sums.jsonl").read_text("utf-8").splitlines()


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
