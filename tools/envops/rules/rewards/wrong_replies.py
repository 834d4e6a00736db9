"""Replies that are wrong in one telling way, and right ones in another dress."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envops_worker.messages import text_of
from envops_worker.policies.distorted_answers import long_junk, look_alike, negated, wrong_first, wrong_last
from envops_worker.policies.drafts import think_only, unclosed_think
from envops_worker.policies.equivalent_answers import equivalent, padded

from envops.facts.reward_numbers import number
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import merged, of_conversation, reply_text
from envops.rules.gold import best_paid, gold_by_task, reaching_gold, scores_of, worst_paid
from envops.rules.rewards.policies import paid_beyond, paid_like_gold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops_worker.policies import Policy

    from envops.facts.observed import Score

_REASONING = re.compile(r"<(think|thinking|reasoning|scratchpad|thought|analysis)>", re.IGNORECASE)


def asks_for_reasoning(subject: Subject) -> bool:
    """Whether reasoning in tags is part of the format: a prompt asks for it, or gold does it."""
    prompts = (text_of(message) for task in subject.facts.tasks for message in task.prompt)
    gold = (reply_text(score.completion) for score in gold_by_task(subject).values())
    return any(_REASONING.search(text) for texts in (prompts, gold) for text in texts)


@rule("RWD061", gate="rewards")
def long_junk_pays(subject: Subject) -> Iterator[Found]:
    """A very long reply without content is paid.

    What: 200,000 characters of junk, alone and in the answer's place, earn at most what form alone may.
    Why: Length is the first thing that training finds; a reward that grows with it has no other lesson.
    Fix: Do not pay for length, or only together with the right answer.
    """
    yield from paid_beyond(subject, long_junk)


@rule("RWD062", gate="rewards")
def look_alike_is_paid_like_gold(subject: Subject) -> Iterator[Found]:
    """An answer that only looks right earns as much as the right one.

    What: The answer with letters of another script that look alike, letters in place of digits, or a
        superscript for its last digit earns less than gold.
    Why: Nobody who uses the answer can use this one, and a model that writes it is told that it is right.
    Fix: Compare the text itself; do not fold look-alikes or compatibility characters (NFKC makes 42 of 4²).
    """
    if subject.package.answer.type != "none":
        yield from paid_like_gold(subject, look_alike)


def _drafts_are_refused_by_right(subject: Subject) -> bool:
    described = subject.facts.description
    return asks_for_reasoning(subject) and not (described is not None and described.drafts_read_by)


@rule("RWD063", gate="rewards")
def answer_inside_the_reasoning_is_paid(subject: Subject) -> Iterator[Found]:
    """An answer that stands only inside the reasoning is paid in full.

    What: Where the format has reasoning in tags, the right answer inside of it, closed or cut off, earns less
        than gold. Where a parser of verifiers itself reads it there, RWD069 says so.
    Why: A draft is no answer: cut-off replies are paid, and a model learns to list drafts.
    Fix: Read only what stands behind the closing tag of the reasoning, and nothing where that tag is missing.
    """
    if subject.package.answer.type != "none" and _drafts_are_refused_by_right(subject):
        yield from _inside_the_reasoning(subject)


@rule("RWD069", gate="rewards", severity="warning")
def answer_in_think_tags_is_paid(subject: Subject) -> Iterator[Found]:
    """An answer that stands only inside think tags is paid in full, though nobody asked for such tags.

    What: The right answer inside `<think>` earns less than gold, also where the format knows no reasoning in
        tags, and where the environment's parser is one of verifiers that reads the first tag wherever it
        stands (`vf.XMLParser`).
    Why: Models that reason write these tags on their own; cut off in mid-thought, they are paid for a draft.
    Fix: Drop everything up to `</think>` before the answer is read, and everything where it is missing.
    """
    if subject.package.answer.type != "none" and not _drafts_are_refused_by_right(subject):
        yield from _inside_the_reasoning(subject)


def _inside_the_reasoning(subject: Subject) -> Iterator[Found]:
    hits = [
        _paid_in_full(subject, score, gold, policy.reply)
        for policy in (think_only, unclosed_think)
        for score, gold in reaching_gold(subject, policy.name)
    ]
    scored = [*scores_of(subject, think_only.name), *scores_of(subject, unclosed_think.name)]
    yield from merged(hits, len(scored), "replies")


def _paid_in_full(subject: Subject, score: Score, gold: Score, saying: str) -> Found:
    return Found(
        f"{saying} earns {number(score.reward)} on task {score.task}, gold earns {number(gold.reward)}",
        of_conversation(score) | {"gold": of_conversation(gold), "expected": f"< {number(gold.reward)}"},
        best_paid(subject, score),
    )


def _with_two_answers(subject: Subject) -> tuple[list[tuple[Score, Score]], set[int]]:
    """Replies whose last answer is wrong and that earn gold, and tasks where the other order earns it too."""
    ends_wrong = list(reaching_gold(subject, wrong_last.name))
    right_last = {score.task for score, _ in reaching_gold(subject, wrong_first.name)}
    return ends_wrong, right_last


@rule("RWD064", gate="rewards")
def any_of_several_answers_counts(subject: Subject) -> Iterator[Found]:
    """Any of several answers counts.

    What: Of two final answers in the same format, a wrong and the right one, at most one place can earn what
        gold earns.
    Why: Where any of them counts, a model learns to give every answer that it can think of.
    Fix: Read one: the last, and none where there are several.
    """
    ends_wrong, right_last = _with_two_answers(subject)
    hits = [
        _paid_in_full(subject, score, gold, "the right answer beside a wrong one, in either order,")
        for score, gold in ends_wrong
        if score.task in right_last
    ]
    yield from merged(hits, len(scores_of(subject, wrong_last.name)), "replies")


@rule("RWD065", gate="rewards", severity="warning")
def first_of_several_answers_counts(subject: Subject) -> Iterator[Found]:
    """The first answer counts, whatever is answered last.

    What: The right answer followed by a wrong one in the same format earns less than gold.
    Why: What a reply ends on is its answer. Listing gains nothing here, but corrections go unpaid and drafts
        are paid.
    Fix: Read the last answer, or none where there are several.
    """
    ends_wrong, right_last = _with_two_answers(subject)
    hits = [
        _paid_in_full(subject, score, gold, "the right answer, then a wrong one,")
        for score, gold in ends_wrong
        if score.task not in right_last
    ]
    yield from merged(hits, len(scores_of(subject, wrong_last.name)), "replies")


@rule("RWD066", gate="rewards")
def negated_answer_is_paid_like_gold(subject: Subject) -> Iterator[Found]:
    """Denying the right answer earns as much as giving it.

    What: "not" in front of the answer in its place, and "The answer is not …" in plain words, earn less than
        gold.
    Why: The reward finds the answer instead of reading it.
    Fix: Compare the whole of the parsed answer; no `in`, no search for a number in a sentence.
    """
    if subject.package.answer.type != "none":
        yield from paid_like_gold(subject, negated)


@rule("RWD067", gate="rewards")
def declared_equivalent_is_refused(subject: Subject) -> Iterator[Found]:
    """What is declared not to matter costs reward.

    What: Gold with its answer in other case, in another order or within the tolerance earns what gold earns,
        where `[tool.envops.answer]` says that this does not matter.
    Why: Either the declaration or the reward is wrong, and near misses are made by the declaration.
    Fix: Normalise both sides in the reward, or correct `case_sensitive`, `type` or `tolerance`.
    """
    yield from _refused(subject, equivalent)


@rule("RWD068", gate="rewards", severity="warning")
def space_around_the_answer_is_refused(subject: Subject) -> Iterator[Found]:
    """Line breaks around the answer cost reward.

    What: Gold with line breaks around its answer earns what gold earns.
    Why: Models write tags on lines of their own; they are then told that a right answer is wrong.
    Fix: Strip the parsed answer on both sides before it is compared.
    """
    if not subject.facts.description or not subject.facts.description.conversational:
        yield from _refused(subject, padded)


def _refused(subject: Subject, policy: Policy) -> Iterator[Found]:
    gold = gold_by_task(subject)
    scored = [(score, gold[score.task]) for score in scores_of(subject, policy.name) if score.task in gold]
    hits = [
        Found(
            f"{policy.reply} earns {number(score.reward)} on task {score.task}, gold earns {number(perfect.reward)}",
            of_conversation(score) | {"gold": of_conversation(perfect), "expected": number(perfect.reward)},
            worst_paid(subject, score),
        )
        for score, perfect in scored
        if score.reward is not None
        and perfect.reward is not None
        and not subject.range.reaches(score.reward, perfect.reward)
    ]
    yield from merged(hits, len(scored), "replies")
