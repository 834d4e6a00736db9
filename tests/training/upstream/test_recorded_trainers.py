"""What envwright writes and reads, against the trainers' own words, without a checkout."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from checked_runs import arguments_of
from envwright.rules.runs.subject import TrainerLimits
from envwright.training.trainers import TRAINERS
from jsonschema import Draft202012Validator
from trainers_session import RECORDED
from trainers_session import TRAINERS as RECORDED_TRAINERS

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs" / "rl"
COMMAND = re.compile(r"\bprime train ([a-z]+)\b(?!/)")
"""A command of prime in a message; a path is not one."""


@cache
def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text("utf-8"))


def errors_of(values: dict[str, Any]) -> list[str]:
    """What prime-rl's recorded schema finds in a configuration, without what the prime CLI takes out of it."""
    hosted = recorded("prime")["keys of the CLI alone"]
    left = {key: value for key, value in values.items() if key not in hosted}
    found = Draft202012Validator(recorded("prime_rl")["schema"]).iter_errors(left)
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in found]


def prime_rl_configs() -> list[Path]:
    return [path for path in sorted(CONFIGS.glob("*.toml")) if "\n[orchestrator" in path.read_text("utf-8")]


@pytest.mark.parametrize("path", prime_rl_configs(), ids=lambda path: path.stem)
def test_committed_configuration_fits_the_recorded_schema_of_prime_rl(path: Path) -> None:
    assert errors_of(tomllib.loads(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [("ckpt", "intervall", 1), ("orchestrator", "batch_size", "many"), ("trainer", "max_step", 3)],
)
def test_wrong_configuration_is_refused_by_the_recorded_schema(table: str, key: str, value: Any) -> None:
    values = tomllib.loads(prime_rl_configs()[0].read_text("utf-8"))
    values.setdefault(table, {})[key] = value
    assert len(errors_of(values)) == 1


def test_every_recorded_file_names_its_commit_or_version() -> None:
    for trainer in RECORDED_TRAINERS:
        for name in trainer.records:
            source = recorded(name.removesuffix(".json"))["source"]
            assert {"repository", "commit"} <= {*source} or {"package", "version"} <= {*source}, name
            assert all(source.values()), name


LOGGED = {"trl": ("trl", "logged"), "tinker": ("tinker", "logged"), "prime-rl": ("prime_rl_metrics", "names")}
"""Trainer → its recorded file, and the key of the names that it logs."""


@pytest.mark.parametrize("backend", LOGGED)
def test_metrics_that_a_run_is_judged_by_are_logged(backend: str) -> None:
    file, key = LOGGED[backend]
    trainer, logged = TRAINERS[backend], recorded(file)[key]
    for metric, names in trainer.metrics.items():
        if (backend, metric) == ("prime-rl", "reward_std"):
            continue  # an earlier release logged it, this one does not
        assert any(re.fullmatch(name, each) for name in (metric, *names) for each in logged), metric
    assert all(any(re.fullmatch(name, each) for each in logged) for name in trainer.zero_variance or ())


def test_algorithms_are_those_of_prime_rl() -> None:
    limits: TrainerLimits = TRAINERS["prime-rl"].limits
    assert {*limits.algorithms} <= {*recorded("prime_rl")["algorithms"]}


def test_prime_rl_keeps_nothing_without_a_checkpoint_table() -> None:
    found = recorded("prime_rl")
    assert found["ckpt"] is None
    assert "config.ckpt is not None" in found["the trainer saves if"]


def test_settings_of_compiled_trl_runs_are_trl_s() -> None:
    compiled = [tomllib.loads(path.read_text("utf-8")) for path in CONFIGS.glob("*.toml")]
    settings = [each["grpo"] for each in compiled if "grpo" in each]
    assert settings
    assert [name for each in settings for name in each if name not in recorded("trl")["settings"]] == []


def test_arguments_of_compiled_tinker_runs_are_the_recipe_s() -> None:
    scripts = [path.read_text("utf-8") for path in CONFIGS.glob("*.sh")]
    recipe = [script for script in scripts if "tinker_cookbook.recipes.verifiers_rl" in script]
    names = {argument.partition("=")[0] for script in recipe for argument in arguments_of(script)}
    assert names
    assert names <= {*recorded("tinker")["arguments"]}


def test_commands_of_prime_train_in_messages_exist() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "tools" / "envwright").rglob("*.py")]
    named = {name for source in sources for name in COMMAND.findall(source)}
    assert "logs" in named
    assert named - {*recorded("prime")["commands"]} == set()
