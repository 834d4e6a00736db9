"""Data that loading did not find is one finding, with the declaration that provides it and the next step."""

from __future__ import annotations

import pytest
from envwright.declarations.preparation import Preparation, PreparedDataset
from envwright.facts.observed import WantedData
from envwright.rules.engine import Finding, findings
from subjects import unloaded

COMMIT = "a" * 40
DECLARED = Preparation((PreparedDataset("acme/sums", COMMIT),))
SUMS = WantedData("dataset", "acme/sums")
PUNKT = WantedData("nltk", "punkt_tab")


def missing(*wanted: WantedData, declared: Preparation = Preparation()) -> Finding:  # noqa: B008
    subject = unloaded("load", "network", wanted=wanted, entry={"prepare": declared})
    (found,) = [each for each in findings(subject) if each.counts]
    return found


def lines(found: Finding) -> str:
    return str(found.evidence.details.get("registry.yaml", ""))


def test_missing_data_is_added_to_declaration() -> None:
    found = missing(SUMS, WantedData("dataset", "acme/pages", "", COMMIT), PUNKT, declared=DECLARED)
    assert [part in lines(found) for part in ("acme/sums", "acme/pages", "punkt_tab")] == [True] * 3
    assert lines(found).count("acme/sums") == 1


@pytest.mark.parametrize(
    ("wanted", "declared", "fix"),
    [
        (SUMS, DECLARED, "Read it by `load_dataset(name, config)`"),
        (WantedData("dataset", "acme/sums", files="data_files='a.json'"), Preparation(), "Read it by `load_dataset("),
        (PUNKT, Preparation(command="python -m sums.fetch"), "Let the declared command do this, too: python -c"),
        (WantedData("host", "example.org:443"), Preparation(), "Write a command of the package"),
    ],
)
def test_missing_data_without_a_declaration_has_its_own_fix(
    wanted: WantedData, declared: Preparation, fix: str
) -> None:
    found = missing(wanted, declared=declared)
    assert found.fix.startswith(fix)
    assert lines(found) == ""
