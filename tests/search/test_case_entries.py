"""A finding's ready case is a valid entry of cases.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envwright.packages.cases import read_cases
from envwright.rules.suggested_code import ready_case

if TYPE_CHECKING:
    from pathlib import Path

REPLIES = (
    "",
    "[]",
    " \n\t",
    'say "no"',
    "a: b # c",
    "- x\n- y",
    "\\boxed{7}",
    "\u2028\x00\x7f",
    "😀 ünï",
    "'{}'",
    "{a}",
)


@pytest.mark.parametrize("reply", REPLIES)
def test_case_entry_round_trip_keeps_reply(reply: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(
        ready_case("several tags", 3, [{"role": "assistant", "content": reply}], {"reward": "<= 0.05"}),
        encoding="utf-8",
    )
    (case,), problems = read_cases(path, tmp_path)
    assert not problems
    assert case.reply == reply
    assert case.task == 3
    assert dict(case.expect) == {"reward": "<= 0.05"}
