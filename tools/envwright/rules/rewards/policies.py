"""Scripted policies whose replies should earn nothing, or less than the reference reply."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from envwright_worker.policies.baselines import echo, nop
from envwright_worker.policies.distorted_answers import format_only, hedge, near_miss
from envwright_worker.policies.grader_attacks import override

from envwright.facts.reward_numbers import is_reward_number, number
from envwright.rules.engine import Found, Severity, Subject, merged, rule
from envwright.rules.evidence import of_conversation, reply_text
from envwright.rules.gold import best_paid, gold_by_task, scores_of
from envwright.statistics.declared_range import is_reward

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envwright_worker.policies import Policy

    from envwright.facts.observed import Score
    from envwright.statistics.declared_range import DeclaredRange


def paid_beyond(subject: Subject, policy: Policy, declared: DeclaredRange | None = None) -> Iterator[Found]:
    """One finding on the conversations of a policy that earn more than its bound."""
    bound = (declared or subject.range).most_of(policy.bound)
    assert bound is not None, f"the bound of {policy.name} is not a number"
    scores = differing_from_gold(subject, policy.name)
    beyond = [score for score in scores if score.reward is not None and score.reward > bound + subject.range.tolerance]
    hits = [
        Found(
            f"{policy.reply} earns {number(score.reward)} on task {score.task}, more than {number(bound)}",
            of_conversation(subject.facts, score, expected=f"<= {number(bound)}"),
            best_paid(subject, score),
        )
        for score in beyond
    ]
    yield from merged(hits, len(scores), "replies")


def paid_like_gold(subject: Subject, policy: Policy, *, by_libraries: Severity | None = None) -> Iterator[Found]:
    """One finding on the conversations of a policy that earn as much as the reference reply.

    `by_libraries` is its severity if only functions of libraries reward it.
    """
    hits = [
        Found(
            f"{policy.reply} earns {number(score.reward)} on task {score.task}, "
            f"the reference reply earns {number(gold.reward)}",
            of_conversation(subject.facts, score, reference=gold, expected=f"< {number(gold.reward)}"),
            best_paid(subject, score),
            severity=by_libraries if is_paid_by_libraries(subject, score.functions) else None,
        )
        for score, gold in reaching_gold(subject, policy.name)
    ]
    yield from merged(hits, len(scores_of(subject, policy.name)), "replies")


@rule("RWD004", gate="rewards")
def doing_nothing_pays(subject: Subject) -> Iterator[Found]:
    """An empty reply earns a reward.

    What: An empty reply earns at most the floor of the declared range plus 5 % of the range above it. The floor is
        the minimum, or 0 if penalties go below 0.
    Why: Training collects a reward without learning anything.
    Fix: Make the reported function return 0 for an empty reply. If the floor is intended, declare it:
        `[tool.envwright.reward] min`.
    """
    yield from paid_beyond(subject, nop)


@rule("RWD005", gate="rewards")
def near_miss_is_paid_like_gold(subject: Subject) -> Iterator[Found]:
    """A wrong answer in the right format earns as much as the right one.

    What: The reference reply with its answer slightly changed (a number off by one, another choice, an element
        dropped) earns less than the reference reply.
    Why: Training teaches only the format. The reward cannot distinguish nearly right from right.
    Fix: Compare with the answer itself. If order, case or small differences do not matter, declare them in
        `[tool.envwright.answer]`.
    """
    if subject.package.answer.type != "none":
        yield from paid_like_gold(subject, near_miss)


@rule("RWD006", gate="rewards")
def format_alone_pays(subject: Subject) -> Iterator[Found]:
    """The right format around junk earns more than declared.

    What: The reference reply's format around junk earns at most the declared share of format, plus 5 % of the range
        above the floor. If no share is declared, up to 20 % of the maximum are a warning.
    Why: Models learn the format first. If it earns as much as the content, they stop there.
    Fix: Lower the weight of the format, or reward it only together with the content. If more is intended, declare
        `[tool.envwright.reward] format_share`.
    """
    for found in paid_beyond(subject, format_only, subject.declared):
        if subject.range == subject.declared:
            yield found
        else:
            yield replace(found, severity="warning", fix=form_declaration(subject.range))


def is_paid_by_libraries(subject: Subject, paying: Iterable[str]) -> bool:
    """Whether all functions that reward the reply are a library's, which the author can only wrap."""
    description = subject.facts.description
    known = description.functions if description else ()
    rewards = [function for function in known if is_reward(function) and function.name in set(paying)]
    return bool(rewards) and all(function.place is None for function in rewards)


def form_declaration(tolerated: DeclaredRange) -> str:
    """The declaration for an intended small reward for form."""
    functions = ", ".join(f'"{name}"' for name in tolerated.format_functions)
    share = f"{tolerated.format_share:.3g}"
    return (
        f"If it is intended, add to pyproject.toml: `[tool.envwright.reward]` with `format = [{functions}]` and "
        f"`format_share = {share}`. Otherwise reward form only together with the right answer."
    )


@rule("RWD007", gate="rewards")
def echo_is_paid_like_gold(subject: Subject) -> Iterator[Found]:
    """The repeated prompt earns as much as the right answer.

    What: The prompt as a reply earns less than the reference reply, unless that is the prompt.
    Why: Copying the prompt earns the full reward. It contains the answer, or words that the reward searches for.
    Fix: Read only the final answer, from a tag or the last line. Do not search the whole reply.
    """
    yield from paid_like_gold(subject, echo)


@rule("RWD008", gate="rewards")
def listing_answers_is_paid_like_gold(subject: Subject) -> Iterator[Found]:
    """Several candidate answers at once earn as much as the right one.

    What: A reply that lists the right answer among wrong ones earns less than the reference reply.
    Why: The model learns to list candidates. The reward searches for the answer instead of reading it.
    Fix: Parse one final answer and compare all of it. Use no `in` and no search for the first match.
    """
    if subject.package.answer.type != "none":
        yield from paid_like_gold(subject, hedge)


@rule("RWD009", gate="rewards")
def override_is_paid_like_gold(subject: Subject) -> Iterator[Found]:
    """Instructions to the grader earn as much as the right answer.

    What: A reply that only instructs the grader to give full marks earns less than the reference reply.
    Why: Training finds text that the judge obeys. Unprotected judges gave full marks to such text 8 times of 10.
    Fix: Quote the reply to the judge as data, request a verdict in a fixed form, and check the answer by code where
        possible.
    """
    yield from paid_like_gold(subject, override)


@rule("RWD010", gate="rewards")
def reward_is_constant(subject: Subject) -> Iterator[Found]:
    """Every policy earns the same.

    What: On at least one task, two policies with different replies earn different rewards.
    Why: A constant reward has no gradient. Training on it changes nothing.
    Fix: Check that the reward reads the reply, and that it finds the answer in the requested format.
    """
    by_task: dict[int, list[Score]] = defaultdict(list)
    for score in subject.facts.scores:
        if is_reward_number(score.reward):
            by_task[score.task].append(score)
    compared = [scores for scores in by_task.values() if len({score.policy for score in scores}) > 1]
    if not compared or any(_differ(scores, subject.range.tolerance) for scores in compared):
        return
    policies = sorted({score.policy for scores in compared for score in scores})
    first = compared[0][0]
    yield Found(
        f"{len(policies)} policies earn the same on all of {len(compared)} tasks, "
        f"{number(first.reward)} on task {first.task}",
        replace(
            of_conversation(subject.facts, first, details={"policies": policies}),
            more=tuple(of_conversation(subject.facts, score) for score in compared[0][1:3]),
        ),
        best_paid(subject, first),
    )


def _differ(scores: list[Score], tolerance: float) -> bool:
    rewards = [score.reward for score in scores if score.reward is not None]
    return max(rewards) - min(rewards) > tolerance


def reaching_gold(subject: Subject, policy: str) -> Iterator[tuple[Score, Score]]:
    """Conversations of a policy that earn as much as the reference reply, each with that reply.

    A conversation that ends on the reference reply's last turn is left out: it reached the right answer in another way,
    for example because the environment guided the policy. So is a conversation that earns no more than form alone may,
    and one compared with a derived reply that misses the maximum, which may be wrong itself.
    """
    declared = subject.range
    gold = gold_by_task(subject)
    more_than_form = declared.form_alone + declared.tolerance
    for score in scores_of(subject, policy):
        perfect = gold.get(score.task)
        if perfect is None or perfect.reward is None or score.reward is None:
            continue
        if perfect.derived and not declared.reaches(perfect.reward, declared.maximum):
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
