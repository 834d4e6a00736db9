"""What the search for exploits came by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.facts.reward_numbers import number
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import shortened
from envops.rules.exploits import (
    ENOUGH_TASKS,
    beyond_form,
    clear_wins,
    evidence_of,
    exploits,
    panel,
    paying_place,
    way_to_gold,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEST = 0.5
"""Share of the way to gold from which on partial credit for no answer is worth a word."""


def _shown(reply: str) -> str:
    return repr(shortened(reply, 60)) if reply.strip() else "an empty reply"


@rule("RWD085", gate="rewards")
def one_reply_is_paid_on_many_tasks(subject: Subject) -> Iterator[Found]:
    """One and the same reply is paid like the right answer on tasks whose answers exclude each other.

    What: A search tries replies that do not depend on the task (counting lists, empty containers, many tags, long
        texts, constants of the reward's source, and what evolves from them) on a few tasks no two of which share an
        answer. No reply is paid like gold on two of them.
    Why: Such a reply cannot be right on both. A model finds it sooner than it learns the task, and then stops.
    Fix: Look at what the finding says it exploits. Read one final answer, compare it as a whole, and give 0 where
        nothing was read. The case that comes with the finding keeps it mended.
    """
    for exploit in exploits(subject, "blind"):
        wins = clear_wins(subject, exploit)
        if len(wins) > 1:
            expected = f"<= {number(subject.range.form_alone)}"
            yield Found(
                f"{_shown(exploit.reply)} is paid like the right answer on {len(wins)} of {len(panel(subject))} tasks "
                f"whose answers exclude each other: {exploit.explanation}",
                evidence_of(subject, exploit, wins[-1], expected),
                paying_place(subject, exploit),
            )


@rule("RWD086", gate="rewards")
def wrong_by_construction_is_paid_like_gold(subject: Subject) -> Iterator[Found]:
    """A reply that was made wrong on purpose is paid like the right answer.

    What: Gold is turned into replies that are wrong by how they are made: the answer inside a longer number or word,
        beside another one, in one of several tags whatever the order, negated, in front of a wrong final answer, under
        another key, a piece of it, or among elements that do not belong there. None is paid like gold.
    Why: A reward that searches for the answer pays whoever mentions it.
    Fix: Parse one final answer and compare it as a whole, as the type that `[tool.envops.answer]` declares. If such
        a reply is right here, declare what is: `type`, `tolerance`, or `type = "none"`.
    """
    paid = [(exploit, clear_wins(subject, exploit)) for exploit in exploits(subject, "wrong")]
    paid = [(exploit, wins) for exploit, wins in paid if wins and len(wins) >= min(2, len(panel(subject)))]
    if not paid:
        return
    exploit, wins = paid[0]
    gold = panel(subject)[wins[0].task]
    evidence = evidence_of(subject, exploit, wins[0], f"< {number(gold.gold)}")
    if len(paid) > 1:
        evidence["also"] = {other.pattern: others[0].reply for other, others in paid[1:]}
    yield Found(
        f"{_shown(wins[0].reply)} is paid like the right answer {shortened(gold.answer, 40)!r} "
        f"on {len(wins)} tasks: {exploit.explanation}",
        evidence,
        paying_place(subject, exploit),
    )


@rule("RWD087", gate="rewards")
def functions_pay_what_knows_nothing_of_the_task(subject: Subject) -> Iterator[Found]:
    """Functions that are not declared as form pay in full for a reply that knows nothing of the task.

    What: On every task of the search's panel, what a constant reply earns stays below what form alone may earn and
        10 % of the range, unless it is partial credit for being partly right.
    Why: Length, key words and tone are cheap. Where they pay beside the answer, a model collects them first, and
        with them alone.
    Fix: Pay for them only together with a right answer, or drop them. If the function is about form, declare it:
        `[tool.envops.reward] format` and `format_share`.
    """
    if any(len(clear_wins(subject, exploit)) > 1 for exploit in exploits(subject, "blind")):
        return  # the same reply paid in full says it better
    for exploit in exploits(subject, "unearned"):
        functions = [name for name in exploit.functions if name not in subject.range.format_functions]
        if functions and exploit.earned and all(beyond_form(subject, each) for each in exploit.earned):
            least = min(exploit.earned, key=lambda each: each.reward)
            yield Found(
                f"{', '.join(functions)} pays {_shown(exploit.reply)} in full on all {len(exploit.earned)} tasks "
                f"of the panel, {number(least.reward)} in all: {exploit.explanation}",
                evidence_of(subject, exploit, least, f"<= {number(subject.range.form_alone)}"),
                paying_place(subject, exploit),
                inconclusive=len(exploit.earned) < ENOUGH_TASKS,
            )


@rule("RWD088", gate="rewards", severity="warning")
def constant_reply_earns_half(subject: Subject) -> Iterator[Found]:
    """One constant reply earns half of what gold earns on every task.

    What: No reply that does not depend on the task comes half the way from what form alone may earn to gold on all
        tasks of the search's panel.
    Why: Partial credit is fine; half of it for saying the same each time leaves little to learn from.
    Fix: Let the credit begin where a guess ends, for example `max(0, 2 * similarity - 1)`.
    """
    for exploit in exploits(subject, "partial"):
        ways = [way_to_gold(subject, each) for each in exploit.earned if each.task in panel(subject)]
        if len(ways) >= ENOUGH_TASKS and min(ways) >= MODEST:
            least = min(exploit.earned, key=lambda each: each.reward)
            yield Found(
                f"{_shown(exploit.reply)} comes at least {min(ways):.0%} of the way to gold on all {len(ways)} tasks "
                "of the panel",
                evidence_of(subject, exploit, least, f"<= {number(subject.range.form_alone)}"),
            )


@rule("RWD089", gate="rewards", severity="warning")
def odd_reply_breaks_the_reward(subject: Subject) -> Iterator[Found]:
    """A reply that the search came by breaks the reward.

    What: No reply makes a reward function raise, return what is not a finite number, or take longer than 2 seconds.
    Why: v0 makes 0.0 of it without a word, v1 loses the rollout: either way a model is told something that the
        author did not mean.
    Fix: Give 0 to what cannot be read; do not call `int`, `json.loads` or `eval` on a reply without a net.
    """
    search = subject.facts.search
    for broken in search.broken if search else ():
        yield Found(
            f"{broken.function} breaks on {_shown(broken.reply)}, task {broken.task}: "
            f"{broken.type}: {shortened(broken.message, 150)}",
            {"task": broken.task, "reply": shortened(broken.reply), "error": f"{broken.type}: {broken.message}"},
        )
