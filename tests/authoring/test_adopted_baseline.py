"""The findings that an adopted environment's entry lists as known."""

from __future__ import annotations

from pathlib import Path

import pytest
from envwright.authoring.adopting.staging import known_counts, known_rows
from envwright.authoring.new.write import with_entry
from envwright.declarations.registry import load_registry
from envwright.reports.result import EnvironmentResult
from envwright.rules.engine import Finding, Verdict
from envwright.rules.verdict import with_known


def finding(rule: str, **changes: object) -> Finding:
    return Finding(**{"rule": rule, "gate": "rewards", "severity": "error", "message": "m", "fix": "f", **changes})


def result(*findings: Finding, verdict: Verdict = "fail") -> EnvironmentResult:
    return EnvironmentResult("words", "environments/words", verdict, findings=findings)


def test_known_counts_are_deciding_errors_by_rule():
    found = result(
        finding("RWD005"),
        finding("RWD005"),
        finding("RWD020"),
        finding("SCH023", severity="warning"),
        finding("RWD001", inconclusive=True),
        finding("RWD009", ignored=True),
    )
    assert known_counts(found) == {"RWD005": 2, "RWD020": 1}


@pytest.mark.parametrize(
    "found",
    [
        result(finding("RWD005"), finding("SCH041")),
        result(finding("RWD005"), finding("RWD020", bug=True)),
        result(finding("RWD005"), verdict="error"),
        result(),
    ],
)
def test_known_counts_of_unjudged_environment_are_none(found: EnvironmentResult):
    assert known_counts(found) == {}


def test_known_rows_are_read_back_by_the_registry(tmp_path: Path):
    rows = known_rows({"RWD005": 2}, "2026-01-31")
    text = with_entry("version: 1\nowner: acme\nenvironments: {}\n", "words", [], further=rows)
    (tmp_path / "registry.yaml").write_text(text)
    known = load_registry(tmp_path).environments["words"].known
    three = [finding("RWD005") for _ in range(3)]
    assert [one.ignored for one in with_known(three, known)] == [True, True, False]
