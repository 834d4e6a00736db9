"""docs/from-the-guides.md: each row has a command that can be called, or a dash with the reason.

`test_commands_in_docs.py` finds the test that executes each command.
"""

from __future__ import annotations

import re

import pytest
from commands_in_pages import ROOT
from documented_commands import documented
from envwright.cli.main import COMMANDS

PAGE = "docs/from-the-guides.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / PAGE).read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| in the guides", "| skill"))
]
GUIDES = ("vf-init", "vf-eval", "prime env init", "prime eval run", "prime rl run", "prime train", "prime env push")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`")[:40])
def test_guide_row_has_one_command_or_a_reason(row: list[str]) -> None:
    _, here, difference = row
    commands = documented(PAGE, here)
    assert difference.endswith(".")
    assert len(difference.split()) > 3
    if here == "–":
        assert not commands
    else:
        [command] = commands
        assert command.command in COMMANDS


@pytest.mark.parametrize("theirs", GUIDES)
def test_guide_command_has_a_row(theirs: str) -> None:
    assert any(re.search(rf"`{theirs}\b", row[0]) for row in ROWS)


def test_seven_skills_have_a_row() -> None:
    skills = [row[0] for row in ROWS if not row[0].startswith("`")]
    assert len(skills) == 7
