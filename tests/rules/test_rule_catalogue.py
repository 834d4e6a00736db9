"""The catalogue matches the rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from envwright.exit_codes import CommandError
from envwright.rules.catalogue import CATALOGUE_FILE, explain, render_catalogue
from envwright.rules.engine import all_rules

REPOSITORY = Path(__file__).parents[2]


def test_catalogue_in_docs_is_up_to_date() -> None:
    """Renew it with `envwright docs`."""
    assert (REPOSITORY / CATALOGUE_FILE).read_text(encoding="utf-8") == render_catalogue()


@pytest.mark.parametrize("rule", all_rules())
def test_catalogue_explains_every_rule_in_full(rule: str) -> None:
    known = all_rules()[rule]
    for text in (explain(rule), render_catalogue()):
        for part in (known.title, known.what, known.why, known.fix):
            assert part in text
        assert f"ignore: {{{rule}:" in text


FILE_OF_A_TRAINER = re.compile(r"\b(?:prime-rl|verifiers|tinker-cookbook)(?:'s)? ([\w./-]+\.(?:py|md))(@[0-9a-f]{7,})?")
"""A file that a rule names as its source, and the commit."""


@pytest.mark.parametrize("rule", all_rules())
def test_rule_names_the_commit_of_a_trainer_s_file(rule: str) -> None:
    found = FILE_OF_A_TRAINER.findall(all_rules()[rule].what)
    assert [file for file, commit in found if not commit] == []


def test_rule_id_is_case_insensitive() -> None:
    assert explain("rwd004") == explain("RWD004")


def test_explain_unknown_rule_suggests_nearest() -> None:
    with pytest.raises(CommandError, match="did you mean SCH09"):
        explain("SCH099")
