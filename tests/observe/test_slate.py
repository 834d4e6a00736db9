"""What a worker was about and had not sent is known after its end."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from envops.observe.remembering import Wish
from envops.observe.worker import channel as channels
from envops.observe.worker.channel import Channel
from envops.observe.worker.slate import ABOUT_BYTES, SIZE, WAITING_BYTES, Slate, new_slate, read_slate
from sample_packages import look_at, write_package

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.observe.workspace import Workspace

LEAVING = """
import os
import verifiers as vf
from datasets import Dataset


def right(completion, answer, **kwargs):
    said = completion[-1]["content"]
    if said == "" and answer == "word 7":
        os._exit(3)
    return float(said == answer)


def load_environment(**kwargs):
    rows = [{"prompt": [{"role": "user", "content": f"{i}?"}], "answer": f"word {i}"} for i in range(9)]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))
"""
ORACLE = """
def reply(task, messages):
    return task["answer"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    """The host's side of a slate."""
    opened = new_slate(tmp_path / "slate")
    yield opened
    os.close(opened)


@pytest.fixture
def slate(tmp_path: Path, file: int) -> Slate:  # noqa: ARG001 (which makes it)
    """The worker's side."""
    return Slate(str(tmp_path / "slate"))


def test_nothing_is_read_where_nothing_was_written(file: int) -> None:
    assert read_slate(file) == (b"", b"")


def test_what_was_written_last_is_read(file: int, slate: Slate) -> None:
    slate.be_about(b"a long first one")
    slate.be_about(b"short")
    slate.wait(b"1\n")
    slate.wait(b"2\n")
    assert read_slate(file) == (b"short", b"1\n2\n")
    slate.nothing_waits()
    slate.wait(b"3\n")
    assert read_slate(file) == (b"short", b"3\n")


def test_what_is_too_long_is_told_by_its_beginning(file: int, slate: Slate) -> None:
    slate.wait(b"x" * WAITING_BYTES)
    slate.be_about(b"y" * (ABOUT_BYTES + 1))
    assert read_slate(file) == (b"y" * ABOUT_BYTES, b"x" * WAITING_BYTES)


def test_nobody_else_finds_the_file(tmp_path: Path, slate: Slate) -> None:
    slate.be_about(b"here")
    assert list(tmp_path.iterdir()) == []


def test_all_of_its_room_is_taken_on_the_disk(tmp_path: Path, file: int) -> None:
    assert (tmp_path / "slate").stat().st_blocks * 512 >= SIZE
    assert os.fstat(file).st_size == SIZE


def test_where_there_is_no_room_there_is_none(tmp_path: Path) -> None:
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))\n"
    asked = "from pathlib import Path; from envops.observe.worker.slate import new_slate; new_slate(Path(sys.argv[1]))"
    command = [sys.executable, "-c", limited + asked, tmp_path / "slate"]
    assert b"OSError" in subprocess.run(command, capture_output=True).stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\xff", bytes([255]) * SIZE, bytes([255]) * (SIZE - 1)])
def test_whatever_is_there_can_be_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "slate").write_bytes(content)
    about, waiting = read_slate(os.open(tmp_path / "slate", os.O_RDONLY))
    assert len(about) <= ABOUT_BYTES
    assert len(waiting) <= WAITING_BYTES


def test_what_waits_is_sent_with_what_does_not(file: int, slate: Slate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "WAITING_SECONDS", 600.0)
    answers = io.BytesIO()
    channel = Channel(io.BytesIO(), answers, slate)
    channel.done()
    sent = answers.tell()
    channel.item("score", 1, waits=True)
    channel.item("score", 2, waits=True)
    assert answers.tell() == sent
    assert [json.loads(line)["value"] for line in read_slate(file)[1].splitlines()] == [1, 2]
    channel.item("other", 3)
    assert [json.loads(line).get("value") for line in answers.getvalue().splitlines()] == [None, 1, 2, 3]
    assert read_slate(file)[1] == b""


def test_nothing_waits_where_nobody_could_find_it_and_nothing_for_long(
    slate: Slate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for waits in (None, slate):
        monkeypatch.setattr(channels, "WAITING_SECONDS", 600.0 if waits is None else -1.0)
        answers = io.BytesIO()
        channel = Channel(io.BytesIO(), answers, waits)
        channel.done()
        channel.item("score", 1, waits=True)
        assert len(answers.getvalue().splitlines()) == 2


def test_more_than_there_is_room_for_is_sent(slate: Slate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "WAITING_SECONDS", 600.0)
    answers = io.BytesIO()
    channel = Channel(io.BytesIO(), answers, slate)
    channel.done()
    for _ in range(3):
        channel.item("score", "x" * (WAITING_BYTES // 2), waits=True)
    channel.done()
    assert [json.loads(line)["event"] for line in answers.getvalue().splitlines()] == [
        "done", "item", "item", "item", "done"
    ]  # fmt: skip


@pytest.mark.worker
def test_a_worker_that_leaves_while_scoring_says_over_what_and_loses_no_score(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"module.py": LEAVING, "tests/oracle.py": ORACLE}
    package = write_package(tmp_path / "environments/leaving", "v0", files)
    facts = look_at(package, workspace, monkeypatch, wish=Wish(use_cache=False, evaluate=False)).facts
    failure = facts.failures["rewards"]
    assert failure.message.startswith("the worker ended with exit code 3\nwhile scoring ")
    about = json.loads(failure.message.partition("while scoring ")[2])
    assert about == {"task": 7, "policy": "nop", "completion": [{"role": "assistant", "content": ""}]}
    by_task = [{score.policy for score in facts.scores if score.task == task} for task in (5, 6)]
    assert by_task[0] == by_task[1], "what was scored just before had not been sent"
    assert len(by_task[0]) > 10
