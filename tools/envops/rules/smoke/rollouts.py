"""Rules of the smoke gate: does a real evaluation end, and with the rewards that were predicted?"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from envops_worker.policies.baselines import oracle

from envops.facts.observed import Place
from envops.facts.reward_numbers import is_reward_number, number
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import described, merged, of_conversation, of_failure
from envops.rules.failures import OUTSIDE_FAULT, is_nobodys_fault, own_failure
from envops.rules.gold import gold_by_task
from envops.statistics.declared_range import speakers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.facts.observed import Failure, Rollout

REWARD_TOLERANCE = 1e-6
"""Difference at which the reward of a rollout and the predicted one are no longer equal."""


def _is_late(rollout: Rollout) -> bool:
    return rollout.timed_out or (rollout.failure is not None and rollout.failure.kind == "timeout")


def _ended_well(subject: Subject) -> list[Rollout]:
    """Rollouts that neither failed nor ran out of time."""
    return [each for each in subject.facts.rollouts if each.failure is None and not _is_late(each)]


def _kind_of_error(failure: Failure) -> tuple[str, str, str]:
    """Equal for failures that differ only in numbers and addresses."""
    return failure.kind, failure.type, re.sub(r"0x[0-9a-f]+|\d+", "N", failure.message)


@rule("SMK001", gate="smoke")
def rollout_fails(subject: Subject) -> Iterator[Found]:
    """Rollouts fail.

    What: No rollout of the smoke evaluation ends in an error of the environment's. Errors that differ
        only in numbers are one finding.
    Why: verifiers' own commands exit with 0 though every rollout failed, and v0 counts each as reward 0.0.
    Fix: Mend the line that is named; the traceback is in the evidence.
    """
    rollouts = subject.facts.rollouts
    by_error: dict[tuple[str, str, str], list[tuple[Rollout, Failure]]] = defaultdict(list)
    for each in rollouts:
        if each.failure is not None and not _is_late(each) and each.failure.kind not in OUTSIDE_FAULT:
            by_error[_kind_of_error(each.failure)].append((each, each.failure))
    for failed in by_error.values():
        hits = [
            Found(
                f"rollout {each.rollout} of {each.policy} on task {each.task} failed: {described(failure)}",
                of_conversation(each) | of_failure(failure),
                failure.place,
                inconclusive=is_nobodys_fault(failure),
            )
            for each, failure in failed
        ]
        yield from merged(hits, len(rollouts), "rollouts")


@rule("SMK002", gate="smoke")
def rollouts_are_missing(subject: Subject) -> Iterator[Found]:
    """Fewer rollouts came back than were asked for.

    What: As many rollouts of each policy came back as the evaluation asked for.
    Why: A lost rollout is one whose failure nobody sees.
    Fix: Look for tasks that cannot be set up, and for groups that are dropped as a whole when one rollout
        fails.
    """
    facts = subject.facts
    if "smoke" not in facts.completed:
        return
    came = Counter(each.policy for each in facts.rollouts)
    for policy, asked in (facts.rollouts_asked or _asked_at_least(subject)).items():
        if came[policy] < asked:
            tasks = Counter(each.task for each in facts.rollouts if each.policy == policy)
            yield Found(
                f"{came[policy]} of {asked} rollouts of {policy} came back",
                {"policy": policy, "count": came[policy], "of": asked, "by_task": dict(sorted(tasks.items())[:20])},
            )


def _asked_at_least(subject: Subject) -> dict[str, int]:
    """What the registry's settings ask of the oracle, where the facts do not say what was asked."""
    gate = subject.entry.gates.smoke
    return {oracle.name: min(gate.tasks, len(subject.facts.tasks)) * gate.rollouts}


@rule("SMK003", gate="smoke")
def rollout_times_out(subject: Subject) -> Iterator[Found]:
    """Rollouts run out of time.

    What: Every rollout ends within the time limit, though the scripted policies answer at once.
    Why: Both generations report a timeout as an ordinary end with reward 0, so training takes it for a
        wrong answer.
    Fix: Look for what waits: a tool, a user simulator, a reward. If the environment needs longer, raise
        `gates.smoke.timeout_s`.
    """
    rollouts = subject.facts.rollouts
    hits = [
        Found(
            f"rollout {each.rollout} of {each.policy} on task {each.task} ran out of time after {each.seconds:.1f} s",
            of_conversation(each) | (of_failure(each.failure) if each.failure else {}),
            each.failure.place if each.failure else None,
        )
        for each in rollouts
        if _is_late(each)
    ]
    yield from merged(hits, len(rollouts), "rollouts")


@rule("SMK004", gate="smoke")
def rollout_has_no_reward(subject: Subject) -> Iterator[Found]:
    """Rollouts end without a reward.

    What: Every rollout that did not fail has a finite reward.
    Why: A missing reward is not zero; who averages over it measures something else.
    Fix: Find the path on which no reward function answers.
    """
    rollouts = subject.facts.rollouts
    hits = [
        Found(
            f"rollout {each.rollout} of {each.policy} on task {each.task} has no reward"
            + ("" if each.reward is None else f" but {each.reward}"),
            of_conversation(each),
        )
        for each in _ended_well(subject)
        if not is_reward_number(each.reward)
    ]
    yield from merged(hits, len(rollouts), "rollouts")


@rule("SMK005", gate="smoke")
def reward_differs_from_prediction(subject: Subject) -> Iterator[Found]:
    """A rollout earns something else than in-process scoring gives the same conversation.

    What: The reward of a rollout and that of its conversation scored in process are equal to 1e-6.
    Why: Either the reward depends on more than the conversation, or what the rewards gate proved is not
        what is trained on.
    Fix: Keep what the reward needs in the task or the state, and nothing in globals, the clock or call order.
    """
    compared = [each for each in _ended_well(subject) if each.predicted is not None and is_reward_number(each.reward)]
    hits = [
        Found(
            f"rollout {each.rollout} of {each.policy} on task {each.task} earned {number(each.reward)}, "
            f"in process it is {number(each.predicted)}",
            of_conversation(each) | {"expected": each.predicted},
        )
        for each in compared
        if each.reward is not None
        and each.predicted is not None
        and abs(each.reward - each.predicted) > REWARD_TOLERANCE
    ]
    yield from merged(hits, len(compared), "rollouts")


@rule("SMK006", gate="smoke")
def gold_is_lost_in_the_rollout(subject: Subject) -> Iterator[Found]:
    """Gold earns the maximum in process and less in a real rollout.

    What: Where the oracle earns the declared maximum in process, it does so in the smoke evaluation.
    Why: Something between endpoint and reward changes the conversation: a system prompt, a parser, a tool,
        a turn limit.
    Fix: Compare the reply in the evidence with the gold reply; raise `max_turns` if the conversation was cut.
    """
    declared = subject.range
    gold = gold_by_task(subject)
    reached = {
        task
        for task, score in gold.items()
        if score.reward is not None and declared.reaches(score.reward, declared.maximum)
    }
    everywhere = bool(gold) and len(reached) == len(gold)
    compared = [
        each
        for each in _ended_well(subject)
        if each.policy == oracle.name and (each.task in reached or (everywhere and each.task not in gold))
    ]
    hits = [
        Found(
            f"gold earned {number(each.reward)} of {number(declared.maximum)} "
            f"in rollout {each.rollout} on task {each.task}",
            of_conversation(each) | {"expected": declared.maximum},
        )
        for each in compared
        if each.reward is not None and not declared.reaches(each.reward, declared.maximum)
    ]
    yield from merged(hits, len(compared), "rollouts")


@rule("SMK007", gate="smoke")
def functions_are_lost_in_the_rollout(subject: Subject) -> Iterator[Found]:
    """Functions that score in process are missing in a real rollout.

    What: Every function that scores all conversations on a task in process also scores its rollouts. Tasks on which
        gold alone was scored tell nothing of other replies, and are left out.
    Why: A function that only runs here is not part of the reward that is trained on.
    Fix: Check what the function asks for (runtime, state, a judge) and whether a real rollout gives it.
    """
    always: dict[int, set[str]] = {}
    for score in subject.facts.scores:
        if score.reward is not None:
            spoke = speakers(score.functions)
            always[score.task] = always.get(score.task, spoke) & spoke
    heard = always.keys() & {score.task for score in subject.facts.scores if score.policy != oracle.name}
    compared = [each for each in _ended_well(subject) if each.task in heard and each.reward is not None]
    hits = []
    for each in compared:
        lost = sorted(always[each.task] - speakers(each.functions))
        if lost:
            hits.append(
                Found(
                    f"{', '.join(lost)} missing in rollout {each.rollout} of {each.policy} on task {each.task}",
                    of_conversation(each) | {"missing": lost},
                )
            )
    yield from merged(hits, len(compared), "rollouts")


@rule("SMK008", gate="smoke")
def smoke_evaluation_fails(subject: Subject) -> Iterator[Found]:
    """The smoke evaluation as a whole fails.

    What: verifiers' own evaluation starts and ends.
    Why: What fails here fails in the first step of training.
    Fix: Mend the line that is named; the traceback is in the evidence.
    """
    failure = own_failure(subject, "smoke")
    if failure is not None and not _is_unserved(subject, failure):  # SMK009 says that one better
        yield Found(f"the smoke evaluation failed: {described(failure)}", of_failure(failure), failure.place)


@rule("SMK009", gate="smoke")
def rollouts_cannot_be_served(subject: Subject) -> Iterator[Found]:
    """The lock lacks what rollouts are served by.

    What: aiohttp is in the lock: the endpoint of scripted policies and the relay's client run on it, inside the
        environment's own virtual environment.
    Why: verifiers before 0.1.14 does not bring it along; without it nothing can be played, and nothing is proven.
    Fix: Add `aiohttp` to project.dependencies, then `nox -s lock`, or require a later release of verifiers.
    """
    broken = [failure for failure in subject.facts.failures.values() if _is_unserved(subject, failure)]
    if broken:
        yield Found("aiohttp is not in requirements.lock", of_failure(broken[0]), Place("requirements.lock"))


def _is_unserved(subject: Subject, failure: Failure) -> bool:
    """Whether something failed for want of aiohttp, which the lock does not hold."""
    lock = subject.package.lock
    lacks = failure.type == "ModuleNotFoundError" and "'aiohttp'" in failure.message
    return lacks and (lock is None or "aiohttp" not in lock.pins)
