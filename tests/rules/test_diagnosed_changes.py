"""What a diagnosis suggests: changes that the run's trainer can make, from sources that its rule names."""

from __future__ import annotations

from typing import Any

import pytest
from envwright.rules.diagnosis import RunLog, memory_ran_out, most_groups_have_no_variance
from envwright.rules.engine import all_rules, findings
from envwright.statistics.series import Series
from envwright.training.trainers import trainer_named
from rule_cases import all_cases
from run_subjects import SOUND, spec_of


@pytest.mark.parametrize(
    ("backend", "declared", "change"),
    [
        ("prime", {}, {"difficulty_filter": True}),
        ("trl", {}, {"group_size": 16, "batch_size": 256}),
        ("trl", {"group_size": 128, "batch_size": 8192}, {}),
        ("trl", {"group_size": 24, "batch_size": 3000}, {}),  # 48 do not divide 3,000
    ],
)
def test_zero_variance_groups_suggest_a_filter_or_larger_groups(
    backend: str, declared: dict[str, Any], change: dict[str, Any]
) -> None:
    series = {"zero_variance": Series("dead_groups", tuple((step, 0.9) for step in range(40)))}
    spec = spec_of({**SOUND, "backend": backend, **declared})
    (found,) = most_groups_have_no_variance(RunLog(series, spec, trainer_named(backend).limits))
    assert found.evidence.details["change"] == change


def test_sequence_that_is_short_already_is_not_lengthened_where_memory_ran_out() -> None:
    spec = spec_of({**SOUND, "seq_len": 256, "sampling": {"max_tokens": 128}})
    (found,) = memory_ran_out(RunLog(spec=spec, log="torch.OutOfMemoryError: CUDA out of memory."))
    assert found.evidence.details["change"] == {}


DIAGNOSES = [(rule, case) for rule, cases in all_cases().items() if rule.startswith("DGN") for case in cases.fires]


@pytest.mark.parametrize(("rule", "case"), DIAGNOSES)
def test_advice_names_a_source_of_its_rule(rule: str, case: str) -> None:
    [found] = [each for each in findings(all_cases()[rule].fires[case]) if each.rule == rule][:1]
    sources = str(found.evidence.details["source"]).split("; ")
    assert all(sources)
    assert [each for each in sources if each not in all_rules()[rule].what] == []
