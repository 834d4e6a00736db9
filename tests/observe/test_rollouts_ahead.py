"""Rollouts are played in a fork beside what is asked before them, where a fork can play what the worker would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sample_packages import look_at, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from envops.observe.workspace import Workspace

pytestmark = pytest.mark.worker

MODULE = """
import os, threading, time

import verifiers as vf
from datasets import Dataset

LOADED_IN = os.getpid()
{more}

def right(completion, answer, **_):
    return float(answer in completion[-1]["content"])


def in_the_worker(completion, **_):
    return float(os.getpid() == LOADED_IN)


def load_environment(**_):
    rows = [{{"question": f"Say twice {{number}}.", "answer": str(2 * number)}} for number in range(100, 112)]
    rubric = vf.Rubric(funcs=[right, in_the_worker], weights=[1.0, 0.0])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
"""
THREAD = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"


@pytest.mark.parametrize(("name", "more", "played"), [("forking", "", 0.0), ("threading_env", THREAD, 1.0)])
def test_where_rollouts_are_played(
    name: str, more: str, played: float, environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    package = write_package(environments / name, "v0", {"module.py": MODULE.format(more=more)})
    facts = look_at(package, workspace, patch).facts
    assert facts.failures == {}
    assert {score.functions["in_the_worker"].score for score in facts.scores if score.policy == "oracle"} == {1.0}
    assert {one.functions["in_the_worker"].score for one in facts.rollouts} == {played}
    assert [one.failure for one in facts.rollouts if one.failure] == []
    assert {one.reward for one in facts.rollouts if one.policy == "oracle"} == {1.0}
    assert all(one.predicted == one.reward for one in facts.rollouts)


SHAKY = """

class Shaky(vf.SingleTurnEnv):
    async def setup_state(self, state, **kwargs):
        if os.getpid() != LOADED_IN:
            raise ValueError("once, and not again")
        return await super().setup_state(state, **kwargs)


vf.SingleTurnEnv = Shaky
"""


def test_what_an_environment_raises_there_gets_no_second_try(
    environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    package = write_package(environments / "shaky", "v0", {"module.py": MODULE.format(more=SHAKY)})
    facts = look_at(package, workspace, patch).facts
    assert {one.failure.message for one in facts.rollouts if one.failure} == {"once, and not again"}
