"""Reference replies by task, and other replies that earn as much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops_worker.policies.baselines import oracle

from envops.rules.evidence import reply_text

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Whether a failure comes from the oracle and not from the environment's scoring."""
    in_oracle = failure.place is not None and failure.place.file.endswith(ORACLE_FILE)
    return in_oracle or failure.type in (NO_ORACLE, ORACLE_ERROR)


def reaching_gold(subject: Subject, policy: str) -> Iterator[tuple[Score, Score]]:
    """Conversations of a policy that earn as much as the reference reply, each with that reply.

    A conversation that ends on the reference reply's last turn is left out: it reached the right answer on another
    way, for example because the environment guided the policy. So is what earns no more than form alone may.
    """
    declared = subject.range
    gold = gold_by_task(subject)
    more_than_form = declared.form_alone + declared.tolerance
    for score in scores_of(subject, policy):
        perfect = gold.get(score.task)
        if perfect is None or perfect.reward is None or score.reward is None:
            continue
        reaches = score.reward > more_than_form and declared.reaches(score.reward, perfect.reward)
        if reaches and last_words(score) != last_words(perfect):
            yield score, perfect


def last_words(score: Score) -> str:
    """The assistant's last turn, tool calls included."""
    return reply_text([message for message in score.completion if message.get("role") == "assistant"][-1:])


def differing_from_gold(subject: Subject, policy: str) -> list[Score]:
    """Conversations of a policy, without those that equal the reference reply."""
    gold = {task: reply_text(score.completion) for task, score in gold_by_task(subject).items()}
    return [score for score in scores_of(subject, policy) if reply_text(score.completion) != gold.get(score.task)]


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
