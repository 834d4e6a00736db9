"""The tasks that an environment declares for evaluation are read, and compared with those of the training."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from envwright.declarations.registry import EnvironmentEntry, HeldOut
from envwright.observing.observation import Observer
from envwright.observing.observation_request import ObservationRequest
from sample_packages import SMALL, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from envwright.declarations.package import Package
    from envwright.facts.observed import Description, Facts
    from envwright.system.workspace import Workspace

pytestmark = pytest.mark.usefixtures("shared_templates")
SEEDED_V1 = """
import verifiers.v1 as vf

__all__ = ["SeededTaskset"]


class SeededConfig(vf.TasksetConfig):
    seed: int = 0


class SeededTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def points(self, trace: vf.Trace) -> float:
        return 1.0


class SeededTaskset(vf.Taskset[SeededTask, SeededConfig]):
    def load(self):
        first = self.config.seed
        return [SeededTask(vf.TaskData(prompt=f"Count to {n}."), self.config.task) for n in range(first, first + 4)]
"""
SEEDED_V0 = """
import verifiers as vf
from datasets import Dataset


def load_environment(seed: int = 0):
    rows = [{"question": f"Count to {n}.", "answer": str(n)} for n in range(seed, seed + 4)]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[]))
"""
SOURCES = {"v0": SEEDED_V0, "v1": SEEDED_V1}


def observed(package: Package, workspace: Workspace, held_out: HeldOut | None) -> Facts:
    """An observation of a package without stages."""
    entry = replace(EnvironmentEntry(package.name, gates=SMALL), eval=held_out)
    request = ObservationRequest(use_cache=False, stages=())
    return Observer(workspace, threading.Event()).observe(entry, package, request)


def described(package: Package, workspace: Workspace, held_out: HeldOut | None) -> Description:
    """The description in an observation of a package without stages."""
    facts = observed(package, workspace, held_out)
    assert facts.description is not None, facts.failures
    assert not facts.failures
    return facts.description


@pytest.mark.parametrize("generation", ["v0", "v1"])
@pytest.mark.parametrize(("args", "shared"), [(None, None), ({"seed": 100}, 0), ({"seed": 3}, 1)])
def test_declared_tasks_are_compared_with_training(
    environments: Path, workspace: Workspace, generation: str, args: dict[str, Any] | None, shared: int | None
) -> None:
    name = f"seeded_{generation}"
    package = write_package(environments / name, generation, {"module.py": SOURCES[generation]})
    seen = described(package, workspace, None if args is None else HeldOut(args=args))
    sizes = {dataset.split: dataset.size for dataset in seen.datasets}
    assert sizes == ({"train": 4} if shared is None else {"train": 4, "eval": 4})
    assert seen.overlap_count == (shared or 0)


@pytest.mark.parametrize("generation", ["v0", "v1"])
def test_declared_split_that_the_environment_lacks_is_a_failure(
    environments: Path, workspace: Workspace, generation: str
) -> None:
    name = f"seeded_{generation}"
    package = write_package(environments / name, generation, {"module.py": SOURCES[generation]})
    failures = observed(package, workspace, HeldOut(split="test")).failures
    message = " ".join(f"{failure.type} {failure.message}" for failure in failures.values())
    assert ("eval_dataset" if generation == "v0" else "split") in message
