"""What a worker was scoring when it died or hung is in the failure's message."""

from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING

import pytest
from envops.validation.requests import Wish
from envops_worker.channel import Channel
from envops_worker.crash_status import MOST_BYTES, new_crash_status, read_crash_status, write_crash_status
from sample_packages import look_at, write_package

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from envops.repository.workspace import Workspace

MODULE = """
import os, signal, time
import verifiers as vf
from datasets import Dataset


def right(completion, answer, **kwargs):
    said = completion[-1]["content"]
    if said == "" and answer == "word 7":
        {end}
    return float(said == answer)


def load_environment(**kwargs):
    rows = [{{"prompt": [{{"role": "user", "content": f"{{i}}?"}}], "answer": f"word {{i}}"}} for i in range(9)]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))
"""
ORACLE = """
def reply(task, messages):
    return task["answer"]
"""
HANG = "signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(600)"


@pytest.fixture
def status() -> Iterator[int]:
    opened = new_crash_status()
    yield opened
    os.close(opened)


def test_crash_status_that_nobody_wrote_is_empty(status: int) -> None:
    assert read_crash_status(status) == b""


def test_crash_status_is_what_was_written_last(status: int) -> None:
    write_crash_status(status, b"a long first one")
    write_crash_status(status, b"short")
    assert read_crash_status(status) == b"short"


def test_crash_status_that_is_too_long_keeps_its_beginning(status: int) -> None:
    write_crash_status(status, b"x" * MOST_BYTES + b"y")
    assert read_crash_status(status) == b"x" * MOST_BYTES


@pytest.mark.parametrize("content", [b"\xff", bytes([255]) * 100])
def test_crash_status_that_others_wrote_over_can_be_read(status: int, content: bytes) -> None:
    os.pwrite(status, content, 0)
    assert len(read_crash_status(status)) <= MOST_BYTES


def test_channel_writes_the_request_beside_what_it_is_about(status: int) -> None:
    channel = Channel(io.BytesIO(b'{"id": 1}\n{"id": 2}\n'), io.BytesIO(), status)
    for _ in channel.requests():
        channel.be_about({"task": 7})
    assert json.loads(read_crash_status(status)) == {"id": 2, "value": {"task": 7}}


@pytest.mark.worker
@pytest.mark.parametrize(
    ("end", "limits", "how"),
    [
        ("os._exit(3)", {}, "the worker ended with exit code 3"),
        (HANG, {"STAGE_SECONDS": 15.0}, "no answer after 15 s"),
    ],
    ids=["crash", "hang"],
)
def test_worker_that_does_not_come_back_says_what_it_was_scoring(
    end: str,
    limits: dict[str, float],
    how: str,
    workspace: Workspace,
    tmp_path: Path,
    patch: pytest.MonkeyPatch,
) -> None:
    files = {"module.py": MODULE.format(end=end), "tests/oracle.py": ORACLE}
    package = write_package(tmp_path / "environments/leaving", "v0", files)
    wish = Wish(use_cache=False, evaluate=False, only_replies=True)
    facts = look_at(package, workspace, patch, wish=wish, **limits).facts
    message, _, about = facts.failures["rewards"].message.partition("\nwhile scoring ")
    assert message == how
    assert json.loads(about) == {"task": 7, "policy": "nop", "completion": [{"role": "assistant", "content": ""}]}
    by_task = [{score.policy for score in facts.scores if score.task == task} for task in (5, 6)]
    assert by_task[0] == by_task[1], "what was scored before is lost"
    assert len(by_task[0]) > 10
