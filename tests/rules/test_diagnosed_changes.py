"""What a diagnosis suggests: changes that the run's trainer can make, from sources that its rule names."""

from __future__ import annotations

from typing import Any

import pytest
from envwright.rules.diagnosis import RunLog, most_groups_have_no_variance
from envwright.rules.engine import all_rules, findings
from envwright.statistics.series import Series
from envwright.training.trainers import trainer_named
from rule_cases import all_cases
from run_subjects import SOUND, spec_of


@pytest.mark.parametrize(
    ("backend", "keys"),
    [("prime", {"difficulty_filter"}), ("trl", {"group_size", "batch_size"})],
)
def test_diagnosis_zero_variance_groups_suggest_filter(backend: str, keys: set[str]) -> None:
    series = {"zero_variance": Series("dead_groups", tuple((step, 0.9) for step in range(40)))}
    spec = spec_of({**SOUND, "backend": backend})
    (found,) = most_groups_have_no_variance(RunLog(series, spec, trainer_named(backend).limits))
    suggested: Any = found.evidence.details["change"]
    assert set(suggested) == keys


DIAGNOSES = [(rule, case) for rule, cases in all_cases().items() if rule.startswith("DGN") for case in cases.fires]


@pytest.mark.parametrize(("rule", "case"), DIAGNOSES)
def test_advice_names_a_source_of_its_rule(rule: str, case: str) -> None:
    [found] = [each for each in findings(all_cases()[rule].fires[case]) if each.rule == rule][:1]
    sources = str(found.evidence.details["source"]).split("; ")
    assert all(sources)
    assert [each for each in sources if each not in all_rules()[rule].what] == []
