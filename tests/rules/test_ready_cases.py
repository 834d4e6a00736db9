"""Proposed cases are read back as the same conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from envwright.facts.recordings import HELD_OUT
from envwright.packages.cases import read_cases
from envwright.rules.suggested_code import ready_case, shown_reply_lines
from envwright_worker.policies.oracle import VALUE

if TYPE_CHECKING:
    from pathlib import Path


def says(*turns: str | dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "assistant", **({"content": turn} if isinstance(turn, str) else turn)} for turn in turns]


REPLIES = [
    "",
    "plain",
    "'{}'",
    "a: b # c",
    "- x\n- y",
    'a "quoted" \\ backslash',
    "two\nlines\t",
    "￿ \x00 \u2028",
    "字 – ⁷ 😀",
    "- [: {",
    "\u202enac",
]


@pytest.mark.parametrize("reply", REPLIES)
def test_ready_case_reply_is_read_back_unchanged(reply: str, tmp_path: Path):
    path = tmp_path / "cases.yaml"
    path.write_text(ready_case("one: two", 3, says(reply), {"reward": 1 / 3}) + "\n")
    (case,), problems = read_cases(path, tmp_path)
    assert not problems
    assert (case.name, case.task, case.reply, case.expect) == ("one: two", 3, reply, {"reward": "0.333333333"})


@pytest.mark.parametrize("arguments", REPLIES)
def test_ready_case_of_conversation_lists_turns(arguments: str):
    call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": arguments}}
    turns = [*says({"content": None, "tool_calls": [call]}), {"role": "tool", "content": "1"}, *says("done")]
    [case] = yaml.safe_load(ready_case("two turns", 0, turns, {"reward": 1.0}))
    assert case["reply"] == [{"role": "assistant", "tool_calls": [call]}, "done"]


def test_ready_case_missing_score_is_left_out():
    [case] = yaml.safe_load(ready_case("broken", 0, says("x"), {"reward": 0.0, "f1: strict, all": 0.5, "other": None}))
    assert case["expect"] == {"reward": 0.0, "f1: strict, all": 0.5}


@pytest.mark.parametrize("reply", REPLIES)
def test_shown_form_is_python_that_returns_it(reply: str):
    function = "\n".join(["def reply(task, messages):", *shown_reply_lines([f"{reply}{VALUE}", "<b>", "[x]"])])
    names: dict[str, Any] = {}
    exec(function, names)
    assert names["reply"]({}, []) == f"{reply}…"
    assert '"<b>", "[x]"' in function


def test_ready_case_of_a_held_out_task_is_none() -> None:
    assert ready_case("paid", HELD_OUT + 3, [{"role": "assistant", "content": "a"}], {"reward": 0.0}) is None
