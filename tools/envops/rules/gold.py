"""Reference replies by task, and where reward functions are defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops_worker.policies.baselines import oracle

if TYPE_CHECKING:
    from envops.facts.observed import Failure, Place, Score
    from envops.rules.engine import Subject

NO_ORACLE = "NoOracle"
"""Type of the worker's failure where there is no reference reply."""
ORACLE_ERROR = "OracleError"
"""Type of the worker's failure where tests/oracle.py returns an invalid reply."""
ORACLE_FILE = "tests/oracle.py"


def scores_of(subject: Subject, policy: str) -> list[Score]:
    """The conversations of one policy that have a finite reward."""
    return subject.rewarded.get(policy, [])


def gold_by_task(subject: Subject) -> dict[int, Score]:
    """The oracle's conversation on each task that has one with a finite reward."""
    return {score.task: score for score in reversed(scores_of(subject, oracle.name))}


def is_of_the_oracle(failure: Failure) -> bool:
    """Whether a failure comes from the oracle and not from the environment's own code."""
    in_oracle = failure.place is not None and failure.place.file.endswith(ORACLE_FILE)
    return in_oracle or ORACLE_FILE in failure.traceback or failure.type in (NO_ORACLE, ORACLE_ERROR)


def failed_by_the_oracle(subject: Subject, score: Score) -> bool:
    """Whether the oracle gave no reply. In a rollout, an exception before any reply may be the environment's."""
    failure = score.failure
    if failure is None or score.policy != oracle.name:
        return False
    described = subject.facts.description
    alone = described is None or not described.conversational
    return is_of_the_oracle(failure) or (alone and failure.kind == "raised" and not score.completion)


def place_of(subject: Subject, function: str) -> Place | None:
    """Where a function is defined."""
    description = subject.facts.description
    known = description.functions if description else ()
    return next((each.place for each in known if each.name == function), None)


def best_paid(subject: Subject, score: Score) -> Place | None:
    """Where the function that contributed most to a reward is defined."""
    paid = {name: (said.score or 0.0) * said.weight for name, said in score.functions.items() if said.kind == "reward"}
    return place_of(subject, max(paid, key=paid.__getitem__)) if paid else None


def worst_paid(subject: Subject, score: Score) -> Place | None:
    """Where the function that fell furthest short of its weight is defined."""
    missed = {
        name: said.weight - (said.score or 0.0) * said.weight
        for name, said in score.functions.items()
        if said.kind == "reward" and said.weight > 0
    }
    return place_of(subject, max(missed, key=missed.__getitem__)) if missed else None
