"""A sound training run, compiled by its real backend, and how to change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from envwright.declarations.run import RunSpec, run_spec
from envwright.rules.runs.subject import Recorded, RunSubject, TrainedOn
from envwright.training.declared_runs import run_subject
from envwright.training.trainers import compile_run, trainer_named
from envwright.training.trainers.trainer import CompileError, CompileRequest, Environment

SOUND: Mapping[str, Any] = {
    "backend": "prime-rl",
    "schema": "august",
    "model": "Qwen/Qwen3-4B-Instruct-2507",
    "environments": [{"id": "plain-sums"}],
    "max_steps": 200,
    "batch_size": 128,
    "group_size": 8,
    "learning_rate": 1e-5,
    "lora": {"rank": 16, "alpha": 32},
    "eval": {"interval": 50},
}
V1 = Environment(
    "plain-sums",
    "plain_sums",
    "acme/plain-sums",
    "0.1.0",
    "v1",
    requires=("verifiers>=0.4.0,<0.5",),
    agents=("agent",),
    settings={
        "id": "str",
        "split": "Literal['train', 'test']",
        "size": "PositiveInt | None",
        "share": "float",
        "hard": "Annotated[bool, Field()]",
    },
    held_out={"split": "test"},
)
V0 = replace(V1, generation="v0", requires=("verifiers>=0.1.8,<0.1.10",), pinned="0.1.9.post3", held_out={})
RECORDED = Recorded("qwen3-4b", False, ((0.0, 0.5, 1.0, 0.25),) * 8, 0.44)


def spec_of(declared: Mapping[str, Any]) -> RunSpec:
    """A declared run with every key on line 7."""
    return run_spec("first", declared, {"": 7}, "registry.yaml")


def run(
    environment: Environment = V1,
    *,
    recorded: Recorded | None = RECORDED,
    multi_turn: bool = False,
    sources: Sequence[Mapping[str, Any]] | None = None,
    without: tuple[str, ...] = (),
    **declared: Any,
) -> RunSubject:
    """The sound run with changed keys; those in `without` are left out."""
    changed = {key: value for key, value in {**SOUND, **declared}.items() if key not in without}
    if "schema" not in declared and not trainer_named(changed["backend"]).limits.schemas:
        changed.pop("schema")
    if sources is not None:
        changed["environments"] = list(sources)
    spec = spec_of(changed)
    request = CompileRequest(spec, {source.id: environment for source in (*spec.environments, *spec.evaluated)})
    compiled, broken = None, ""
    try:
        compiled = compile_run(request)
    except CompileError as error:
        broken = str(error)
    used = tuple(
        TrainedOn(
            label=source.label,
            id=source.id,
            generation=environment.generation,  # type: ignore[arg-type]
            requires=environment.requires,
            pinned=environment.pinned,
            external=environment.external,
            version=environment.version,
            secrets=environment.secrets,
            judge_key=environment.judge,
            multi_turn=multi_turn,
            agents=environment.agents,
            settings=environment.settings,
            recorded=recorded,
            key=f"environments[{index}]",
        )
        for index, source in enumerate(spec.environments)
    )
    return run_subject(request, compiled, used, broken)


def overridden(path: str, value: Any, **more: Any) -> RunSubject:
    """The sound run with one override."""
    overrides: Any = value
    for step in reversed(path.split(".")):
        overrides = {step: overrides}
    return run(overrides=overrides, **more)


def source(**fields: Any) -> Mapping[str, Any]:
    """Overrides that replace the training sources by one with these fields."""
    base = {"name": "plain-sums", "group_size": 8, "env": {"taskset": {"id": "plain-sums"}}, "algo": {"type": "grpo"}}
    return {"orchestrator": {"train": {"source": [{**base, **fields}]}}}
