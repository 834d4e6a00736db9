"""Rules of replies that are wrong in one specific way, and of right ones in an equivalent form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envwright_worker.messages import text_of
from envwright_worker.policies.distorted_answers import long_junk, look_alike, negated, wrong_first, wrong_last
from envwright_worker.policies.drafts import think_only, unclosed_think
from envwright_worker.policies.equivalent_answers import equivalent, padded

from envwright.facts.reward_numbers import number
from envwright.rules.engine import Found, Subject, merged, rule
from envwright.rules.evidence import of_conversation, reply_text
from envwright.rules.gold import best_paid, gold_by_task, scores_of, worst_paid
from envwright.rules.rewards.policies import paid_beyond, paid_like_gold, reaching_gold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright_worker.policies import Policy

    from envwright.facts.observed import Score

_REASONING = re.compile(r"<(think|thinking|reasoning|scratchpad|thought|analysis)>", re.IGNORECASE)


def asks_for_reasoning(subject: Subject) -> bool:
    """Whether reasoning in tags is part of the format: in a prompt or in a reference reply."""
    prompts = (text_of(message) for task in subject.facts.tasks for message in task.prompt)
    gold = (reply_text(score.completion) for score in gold_by_task(subject).values())
    return any(_REASONING.search(text) for texts in (prompts, gold) for text in texts)


@rule("RWD061", gate="rewards")
def long_junk_pays(subject: Subject) -> Iterator[Found]:
    """A very long junk reply earns a reward.

    What: 200,000 characters of junk, alone and in place of the answer, earn at most what form alone may.
    Why: Training discovers length first. A reward that grows with it teaches nothing else.
    Fix: Do not reward length, or only together with the right answer.
    """
    yield from paid_beyond(subject, long_junk)


@rule("RWD062", gate="rewards")
def look_alike_is_paid_like_gold(subject: Subject) -> Iterator[Found]:
    """An answer that only looks right earns as much as the right one.

    What: The answer with similar letters of another script, letters in place of digits, or a superscript for its last
        digit earns less than the reference reply. A warning if a library's own function rewards it.
    Why: The model is rewarded for unusable answers.
    Fix: Compare the text itself. Do not normalise similar or compatibility characters (NFKC turns 4² into 42).
    """
    if subject.package.answer.type != "none":
        yield from paid_like_gold(subject, look_alike, by_libraries="warning")


def _drafts_are_refused_by_right(subject: Subject) -> bool:
    described = subject.facts.description
    return asks_for_reasoning(subject) and not (described is not None and described.drafts_read_by)


@rule("RWD063", gate="rewards")
def answer_inside_the_reasoning_is_paid(subject: Subject) -> Iterator[Found]:
    """An answer inside the reasoning earns the full reward.

    What: If the format has reasoning in tags, the right answer only inside of it, closed or cut off, earns less
        than the reference reply. If a parser of verifiers itself reads it there, RWD069 reports it.
    Why: The model learns to list drafts. A draft is not an answer, and truncated replies are rewarded.
    Fix: Read only the text after the closing tag of the reasoning, and nothing if that tag is missing.
    """
    if subject.package.answer.type != "none" and _drafts_are_refused_by_right(subject):
        yield from _inside_the_reasoning(subject)


@rule("RWD069", gate="rewards", severity="warning")
def answer_in_think_tags_is_paid(subject: Subject) -> Iterator[Found]:
    """An answer inside undeclared think tags earns the full reward.

    What: The right answer only inside `<think>` earns less than the reference reply, also if the format has no
    reasoning in tags, and if the environment's parser is one of verifiers that reads the first tag anywhere
        (`vf.XMLParser`).
    Why: Reasoning models write these tags by default. Truncated in mid-thought, they are rewarded for a draft.
    Fix: Drop everything up to `</think>` before the answer is read, and everything if the tag is missing.
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


def _paid_in_full(subject: Subject, score: Score, gold: Score, kind: str) -> Found:
    return Found(
        f"{kind} earns {number(score.reward)} on task {score.task}, the reference reply earns {number(gold.reward)}",
        of_conversation(subject.facts, score, reference=gold, expected=f"< {number(gold.reward)}"),
        best_paid(subject, score),
    )


def _with_two_answers(subject: Subject) -> tuple[list[tuple[Score, Score]], set[int]]:
    """Replies that end on a wrong answer and earn the full reward, and tasks on which the other order does, too."""
    ends_wrong = list(reaching_gold(subject, wrong_last.name))
    right_last = {score.task for score, _ in reaching_gold(subject, wrong_first.name)}
    return ends_wrong, right_last


@rule("RWD064", gate="rewards")
def any_of_several_answers_counts(subject: Subject) -> Iterator[Found]:
    """Any of several answers counts.

    What: Of two final answers in the same format, a wrong and a right one, at most one position earns as much as the
        reference reply.
    Why: The model learns to list all candidate answers. Every position counts.
    Fix: Read one answer: the last, and none if there are several.
    """
    ends_wrong, right_last = _with_two_answers(subject)
    hits = [
        _paid_in_full(subject, score, gold, "the right answer next to a wrong one, in either order,")
        for score, gold in ends_wrong
        if score.task in right_last
    ]
    yield from merged(hits, len(scores_of(subject, wrong_last.name)), "replies")


@rule("RWD065", gate="rewards", severity="warning")
def first_of_several_answers_counts(subject: Subject) -> Iterator[Found]:
    """The first answer counts even if another one follows.

    What: The right answer followed by a wrong one in the same format earns less than the reference reply.
    Why: The last answer of a reply is its answer. Listing gains nothing here, but corrections are ignored and drafts
        are rewarded.
    Fix: Read the last answer, or none if there are several.
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

    What: "not" in front of the answer in its place, and "The answer is not …" in plain words, earn less than the
        reference reply. A warning if a library's own function rewards it, such as `vf.MathRubric`.
    Why: Replies that deny the answer are rewarded. The reward searches for the answer instead of reading it.
    Fix: Compare all of the parsed answer. Use no `in` and no search for a number in a sentence.
    """
    if subject.package.answer.type != "none":
        yield from paid_like_gold(subject, negated, by_libraries="warning")


@rule("RWD067", gate="rewards")
def declared_equivalent_is_refused(subject: Subject) -> Iterator[Found]:
    """A declared equivalent answer loses reward.

    What: The reference reply with its answer in other case, in another order or within the tolerance earns the same,
        if `[tool.envwright.answer]` declares that this does not matter.
    Why: Either the declaration or the reward is wrong. Near misses are generated from the declaration.
    Fix: Normalise both sides in the reward, or correct `case_sensitive`, `type` or `tolerance`.
    """
    yield from _refused(subject, equivalent)


@rule("RWD068", gate="rewards", severity="warning")
def space_around_the_answer_is_refused(subject: Subject) -> Iterator[Found]:
    """Line breaks around the answer lose reward.

    What: The reference reply with line breaks around its answer earns the same.
    Why: Models write tags on separate lines, and right answers then count as wrong.
    Fix: Strip whitespace on both sides of the parsed answer before it is compared.
    """
    if not subject.facts.description or not subject.facts.description.conversational:
        yield from _refused(subject, padded)


def _refused(subject: Subject, policy: Policy) -> Iterator[Found]:
    gold = gold_by_task(subject)
    scored = [(score, gold[score.task]) for score in scores_of(subject, policy.name) if score.task in gold]
    hits = [
        Found(
            f"{policy.reply} earns {number(score.reward)} on task {score.task}, "
            f"the reference reply earns {number(perfect.reward)}",
            of_conversation(subject.facts, score, reference=perfect, expected=number(perfect.reward)),
            worst_paid(subject, score),
        )
        for score, perfect in scored
        if score.reward is not None
        and perfect.reward is not None
        and not subject.range.reaches(score.reward, perfect.reward)
    ]
    yield from merged(hits, len(scored), "replies")
