"""Gold: what a perfect model says is known, and it earns the declared maximum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops_worker.policies.baselines import oracle

from envops.facts.observed import Failure, Place, Score
from envops.facts.reward_numbers import number
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import described, merged, of_conversation, of_failure
from envops.rules.gold import NO_ORACLE, ORACLE_ERROR, ORACLE_FILE, is_of_the_oracle, scores_of, worst_paid

if TYPE_CHECKING:
    from collections.abc import Iterator


@rule("RWD001", gate="rewards")
def gold_misses_the_maximum(subject: Subject) -> Iterator[Found]:
    """Gold misses the maximum.

    What: What a perfect model says earns the declared maximum of the reward, on every task that was tried.
    Why: Where the right answer is not paid in full, training moves away from it.
    Fix: Mend the reward or the task's answer. If the maximum is another one, declare it:
        `[tool.envops.reward] max`.
    """
    declared = subject.range
    gold = scores_of(subject, oracle.name)
    missed = [
        score for score in gold if score.reward is not None and not declared.reaches(score.reward, declared.maximum)
    ]
    yield from merged((_missing(subject, score) for score in missed), len(gold), "gold replies")


def _missing(subject: Subject, score: Score) -> Found:
    evidence = of_conversation(score) | {"expected": subject.range.maximum}
    answer = next((task.answer for task in subject.facts.tasks if task.index == score.task), None)
    if answer is not None:
        evidence["answer"] = answer
    fix = None
    if score.derived:
        fix = (
            "If this reply is not what a perfect model would say, write the right one: "
            f"`def reply(task, messages)` in {ORACLE_FILE}. "
            "If it is, mend the reward, or declare `[tool.envops.reward] max`."
        )
    return Found(
        f"gold earns {number(score.reward)} of {number(subject.range.maximum)} on task {score.task}",
        evidence,
        worst_paid(subject, score),
        fix,
    )


@rule("RWD002", gate="rewards")
def gold_is_unknown(subject: Subject) -> Iterator[Found]:
    """Nothing says what a perfect model would answer.

    What: Every task that was tried has a gold reply, from tests/oracle.py or derived from the task's answer.
    Why: Without gold nobody knows whether the reward can be reached at all.
    Fix: Write tests/oracle.py with `def reply(task, messages)`: it gets the task's data and the
        conversation so far, and returns what a perfect model says next.
    """
    facts = subject.facts
    if "rewards" not in facts.completed:
        return
    tried = {score.task for score in facts.scores} or {task.index for task in facts.tasks}
    known = {
        score.task
        for score in facts.scores
        if score.policy == oracle.name and (score.failure is None or score.failure.type != NO_ORACLE)
    }
    lacking = sorted(tried - known)
    if not lacking:
        return
    data = next((task.data for task in facts.tasks if task.index == lacking[0]), {})
    why = "its oracle has no reply" if subject.package.has_oracle else "none can be derived and there is no oracle"
    yield Found(
        f"no gold reply for {len(lacking)} of {len(tried)} tasks, first task {lacking[0]}: {why}",
        {"tasks": lacking[:20], "count": len(lacking), "of": len(tried), "fields": sorted(data)},
        Place(ORACLE_FILE),
    )


@rule("RWD003", gate="rewards")
def oracle_fails(subject: Subject) -> Iterator[Found]:
    """The oracle raises or says what no model could say.

    What: `reply(task, messages)` in tests/oracle.py returns a string or an assistant message for every task
        that was tried.
    Why: A broken oracle proves nothing, and hides whether the reward can be reached.
    Fix: Mend tests/oracle.py at the line that is named.
    """
    asked = [score for score in subject.facts.scores if score.policy == oracle.name]
    kinds: dict[tuple[object, ...], list[Found]] = {}
    for score in asked:
        failure = score.failure
        if failure is None or failure.type == NO_ORACLE or not _by_the_oracle(score):
            continue
        found = Found(
            f"the oracle failed on task {score.task}: {described(failure)}",
            of_conversation(score) | of_failure(failure),
            failure.place or Place(ORACLE_FILE),
        )
        kinds.setdefault(_kind(failure), []).append(found)
    for hits in kinds.values():
        yield from merged(hits, len(asked), "tasks")


def _kind(failure: Failure) -> tuple[object, ...]:
    """What tells mistakes of the oracle apart: type and line; a message may name the task, but not which type came."""
    return failure.type, failure.place, failure.message if failure.type == ORACLE_ERROR else ""


def _by_the_oracle(score: Score) -> bool:
    """A failure before anything was said is the oracle's, wherever it was raised."""
    if score.failure is None:
        return False
    return is_of_the_oracle(score.failure) or (score.failure.kind == "raised" and not score.completion)
