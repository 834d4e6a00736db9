"""Every rule fires where it should, and only there."""

from __future__ import annotations

import pytest
from envops.judge.engine import Judged, Subject, all_rules, findings
from envops.judge.verdict import judge
from rule_cases import all_cases
from subjects import subject, v0

CASES = all_cases()


def fired(each: Judged) -> set[str]:
    found = list(findings(each))
    assert not [finding for finding in found if finding.bug]
    return {finding.rule for finding in found}


@pytest.mark.parametrize("rule", all_rules())
def test_rule_has_cases_of_both_kinds(rule: str) -> None:
    assert CASES[rule].fires
    assert CASES[rule].silent


def test_cases_belong_to_rules_that_exist() -> None:
    assert set(CASES) <= set(all_rules())


@pytest.mark.parametrize(
    ("rule", "each"),
    [pytest.param(rule, each, id=f"{rule}-{name}") for rule in CASES for name, each in CASES[rule].fires.items()],
)
def test_rule_fires(rule: str, each: Judged) -> None:
    assert rule in fired(each)


@pytest.mark.parametrize(
    ("rule", "each"),
    [pytest.param(rule, each, id=f"{rule}-{name}") for rule in CASES for name, each in CASES[rule].silent.items()],
)
def test_rule_is_silent(rule: str, each: Judged) -> None:
    assert rule not in fired(each)


@pytest.mark.parametrize("each", [subject(), v0()], ids=["v1", "v0"])
def test_sound_environment_passes_without_any_finding(each: Subject) -> None:
    judgement = judge(each)
    assert judgement.findings == ()
    assert judgement.verdict == "pass"


@pytest.mark.parametrize("rule", CASES)
def test_finding_says_what_is_wrong_and_what_to_do(rule: str) -> None:
    for each in CASES[rule].fires.values():
        for finding in findings(each):
            assert finding.message
            assert finding.fix
            assert len(finding.message) < 400
