"""The cases of a rule: named subjects in which it fires, and others in which it is silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envwright.rules.engine import Judged


@dataclass(frozen=True)
class RuleCases:
    """Name of a case → subject. Those in which a rule is silent come as close to a finding as they can."""

    fires: Mapping[str, Judged]
    silent: Mapping[str, Judged]


def all_cases() -> dict[str, RuleCases]:
    """The cases of every rule that has any."""
    import cases_of_diagnoses
    import cases_of_distribution
    import cases_of_groups
    import cases_of_invariants
    import cases_of_mutation
    import cases_of_recordings
    import cases_of_reward_diff
    import cases_of_rewards
    import cases_of_runs
    import cases_of_schema
    import cases_of_search
    import cases_of_smoke
    import cases_of_smoke_accounting
    import cases_of_time
    import cases_of_versions

    modules = (
        cases_of_schema,
        cases_of_rewards,
        cases_of_invariants,
        cases_of_reward_diff,
        cases_of_smoke,
        cases_of_smoke_accounting,
        cases_of_distribution,
        cases_of_groups,
        cases_of_mutation,
        cases_of_search,
        cases_of_recordings,
        cases_of_runs,
        cases_of_diagnoses,
        cases_of_time,
        cases_of_versions,
    )
    return {rule: cases for module in modules for rule, cases in module.CASES.items()}
