"""A reply is scored as the environment's own rubric says, however that walks through its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envops.observe.remembering import Wish
from sample_packages import look_at, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from envops.observe.workspace import Workspace

pytestmark = pytest.mark.worker

MODULE = """
import verifiers as vf
from datasets import Dataset


def right(completion, answer, **kwargs):
    return float(completion[-1].content == answer)


class Halved(vf.Rubric):
    async def score_group(self, states):
        await super().score_group(states)
        for state in states:
            state["reward"] /= 2


def load_environment(**kwargs):
    rows = [{"prompt": [{"role": "user", "content": f"{i}?"}], "answer": str(i)} for i in range(2)]
    rubric = RUBRIC
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
"""
ORACLE = """
def reply(task, messages):
    return task["answer"]
"""


@pytest.mark.parametrize(
    ("rubric", "gold"),
    [
        ("vf.RubricGroup([vf.Rubric([right]), vf.Rubric([right], [2.0])])", 3.0),
        ("vf.RubricGroup([vf.Rubric([right]), vf.Rubric()])", 1.0),  # one alone refuses a rubric without functions
        ("vf.RubricGroup([vf.Rubric([right]), Halved([right], [2.0])])", 2.0),
    ],
    ids=["verifiers' own", "one without functions", "one that scores groups its own way"],
)
def test_gold_earns_what_the_rubric_gives_a_group_of_one(
    tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, rubric: str, gold: float
):
    files = {"module.py": MODULE.replace("RUBRIC", rubric), "tests/oracle.py": ORACLE}
    package = write_package(tmp_path / "environments" / "halved", "v0", files)
    seen = look_at(package, workspace, monkeypatch, wish=Wish(use_cache=False, evaluate=False, only_replies=True))
    earned = {score.reward for score in seen.facts.scores if score.policy == "oracle"}
    assert earned == {gold}
