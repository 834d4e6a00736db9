"""Every rule fires where it should, and only there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import cases_of_diagnoses
import pytest
import run_subjects
from envwright.observing.facts_cache import read_facts, write_facts
from envwright.rules.engine import Judged, Subject, all_rules, findings
from envwright.rules.verdict import judge
from rule_cases import all_cases, firing_subjects
from subjects import subject, v0

if TYPE_CHECKING:
    from pathlib import Path

CASES = all_cases()
FIRING = firing_subjects()


def fired(each: Judged) -> set[str]:
    found = list(findings(each))
    assert not [finding for finding in found if finding.bug]
    assert all(finding.message and finding.fix and len(finding.message) < 400 for finding in found)
    return {finding.rule for finding in found}


def summary_of(each: Subject) -> list[tuple[str, str, bool]]:
    return [(finding.rule, finding.message, finding.inconclusive) for finding in findings(each)]


@pytest.mark.parametrize("rule", all_rules())
def test_rule_has_firing_and_silent_cases(rule: str) -> None:
    assert CASES[rule].fires
    assert CASES[rule].silent


def test_cases_belong_to_existing_rules() -> None:
    assert set(CASES) <= set(all_rules())


@pytest.mark.parametrize(
    ("rule", "each"),
    [pytest.param(rule, each, id=f"{rule}-{name}") for rule in CASES for name, each in CASES[rule].fires.items()],
)
def test_rule_fires_on_case(rule: str, each: Judged) -> None:
    assert rule in fired(each)


@pytest.mark.parametrize(
    ("rule", "each"),
    [pytest.param(rule, each, id=f"{rule}-{name}") for rule in CASES for name, each in CASES[rule].silent.items()],
)
def test_rule_is_silent_on_case(rule: str, each: Judged) -> None:
    assert rule not in fired(each)


@pytest.mark.parametrize("each", FIRING.values(), ids=list(FIRING))
def test_facts_read_from_file_give_same_findings(each: Subject, tmp_path: Path) -> None:
    write_facts(each.facts, tmp_path / "facts.json")
    kept = replace(each, facts=read_facts(tmp_path / "facts.json"))
    assert summary_of(kept) == summary_of(each)


@pytest.mark.parametrize("each", [run_subjects.run(), cases_of_diagnoses.run()], ids=["declared", "logged"])
def test_sound_run_has_no_findings(each: Judged) -> None:
    assert fired(each) == set()


@pytest.mark.parametrize("each", [subject(), v0()], ids=["v1", "v0"])
def test_sound_environment_has_no_findings(each: Subject) -> None:
    judgement = judge(each)
    assert judgement.findings == ()
    assert judgement.verdict == "pass"
