"""The failure's message names the item that a worker was scoring when it died or hung."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
from envwright.observing.observation_request import ObservationRequest
from envwright_worker.channel import Channel
from sample_packages import look_at, v0_module, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from envwright.system.workspace import Workspace

pytestmark = pytest.mark.usefixtures("shared_templates")
RIGHT = """
import os, signal, time


def right(completion, answer, **kwargs):
    said = completion[-1]["content"]
    if said == "" and answer == "word 7":
        END
    return float(said == answer)
"""
ROWS = [{"question": f"{number}?", "answer": f"word {number}"} for number in range(9)]
ORACLE = """
def reply(task, messages):
    return task["answer"]
"""
HANG = "signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(600)"


def test_channel_sends_status_with_the_request() -> None:
    answers = io.BytesIO()
    channel = Channel(io.BytesIO(b'{"id": 1}\n{"id": 2}\n'), answers)
    for _ in channel.requests():
        channel.be_about({"task": 7})
    assert [json.loads(line) for line in answers.getvalue().splitlines()] == [
        {"event": "about", "id": number, "value": {"task": 7}} for number in (1, 2)
    ]


@pytest.mark.slow
@pytest.mark.worker
@pytest.mark.parametrize(
    ("end", "limits", "kind", "how"),
    [
        ("os._exit(3)", {}, "crash", "the worker ended with exit code 3"),
        (HANG, {"STAGE_SECONDS": 15.0}, "timeout", "no answer after 15 s"),
    ],
    ids=["crash", "hang"],
)
def test_lost_worker_failure_names_its_current_item(
    end: str,
    limits: dict[str, float],
    kind: str,
    how: str,
    workspace: Workspace,
    tmp_path: Path,
    patch: pytest.MonkeyPatch,
) -> None:
    module = v0_module(RIGHT.replace("END", end), "vf.Rubric(funcs=[right])", ROWS)
    files = {"module.py": module, "tests/oracle.py": ORACLE}
    package = write_package(tmp_path / "environments/leaving", "v0", files)
    request = ObservationRequest(use_cache=False, evaluate=False, only_replies=True)
    facts = look_at(package, workspace, patch, request=request, **limits).facts
    assert facts.failures["rewards"].kind == kind
    message, _, about = facts.failures["rewards"].message.partition("\nwhile scoring ")
    assert message == how
    assert json.loads(about) == {"task": 7, "policy": "nop", "completion": [{"role": "assistant", "content": ""}]}
    by_task = [{score.policy for score in facts.scores if score.task == task} for task in (5, 6)]
    assert by_task[0] == by_task[1], "what was scored before is lost"
    assert len(by_task[0]) > 10
