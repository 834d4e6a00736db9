"""What the search for exploits came by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envops.facts.reward_numbers import number
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import EarnedReward, Evidence, ShownFailure, of_reply, shortened, shown_reply
from envops.rules.gold import place_of
from envops.rules.ready_case import ready_case

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.facts.observed import Message, Place
    from envops.facts.search import Earned, Exploit, ExploitKind, PanelTask

CLEAR = 0.5
"""Share of the way from what form alone may earn to gold that a clear win has made."""
LONGEST_CASE = 4_000
"""A reply longer than this is no case that anybody would keep."""
ENOUGH_TASKS = 3
"""On fewer tasks, that functions agree may be chance."""
MODEST = 0.5
"""Share of the way to gold from which on partial credit for no answer is worth a word."""


def exploits(subject: Subject, kind: ExploitKind) -> Iterator[Exploit]:
    """What the search found of one kind."""
    search = subject.facts.search
    for exploit in search.exploits if search else ():
        if exploit.kind == kind:
            yield exploit


def panel(subject: Subject) -> dict[int, PanelTask]:
    search = subject.facts.search
    return {each.task: each for each in search.panel} if search else {}


def clear_wins(subject: Subject, exploit: Exploit) -> list[Earned]:
    """Tasks on which a find is paid far beyond what form alone may earn, and near to gold."""
    tasks = panel(subject)
    return [each for each in exploit.earned if each.task in tasks and way_to_gold(subject, each) >= CLEAR]


def way_to_gold(subject: Subject, earned: Earned) -> float:
    """0 where a find earns what form alone may earn, 1 where it earns what gold earns."""
    gold, bound = panel(subject)[earned.task].gold, subject.range.form_alone
    if gold <= bound + subject.range.tolerance:
        return 0.0
    return (earned.reward - bound) / (gold - bound)


def beyond_form(subject: Subject, earned: Earned) -> bool:
    """Whether a find earns more than form alone may, by as much again as is allowed for crumbs."""
    return earned.reward > subject.range.form_alone + subject.range.crumbs + subject.range.tolerance


def evidence_of(subject: Subject, exploit: Exploit, shown: Earned, expected: str) -> Evidence:
    """The reply, what it earns on the probe tasks, what the reference reply earns, what luck would, and a case."""
    search = subject.facts.search
    assert search is not None
    reference = panel(subject)[shown.task]
    paid = (
        f"task {each.task}: {number(each.reward)} of {number(panel(subject)[each.task].gold)}"
        for each in exploit.earned
    )
    details: dict[str, Any] = {
        "pattern": exploit.pattern,
        "gold_reward": reference.gold,
        "gold_answer": reference.answer,
        "on_the_panel": ", ".join(paid),
        "found": f"by {exploit.found_by} with seed {search.seed}, {search.evaluations} scorings, "
        f"{exploit.found_length} characters before it was shortened",
    }
    if exploit.kind != "wrong" and search.chance is not None:
        details["by_chance"] = (
            f"all answers of the probe tasks differ, so a constant answer is right on 1 of {len(search.panel)}; "
            f"of all tasks seen the most frequent answer is right on {search.chance:.0%}"
        )
    if len(shown.reply) <= LONGEST_CASE:
        name = f"{exploit.pattern} is not paid, task {shown.task}"
        details["ready_case"] = ready_case(name, shown.task, _said(shown.reply), {"reward": expected})
    return replace(
        of_reply(
            subject.facts,
            shown_reply(shown.task, _said(shown.reply)),
            EarnedReward(shown.reward, dict(shown.functions)),
        ),
        expected=expected,
        details=details,
    )


def _said(reply: str) -> list[Message]:
    return [{"role": "assistant", "content": reply}]


def paying_place(subject: Subject, exploit: Exploit) -> Place | None:
    """Where the function that paid is defined."""
    return place_of(subject, exploit.functions[0]) if exploit.functions else None


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
        also = {other.pattern: others[0].reply for other, others in paid[1:]}
        evidence = replace(evidence, details={**evidence.details, "also": also})
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
            replace(
                of_reply(subject.facts, shown_reply(broken.task, _said(broken.reply))),
                failure=ShownFailure(f"{broken.type}: {broken.message}"),
            ),
        )
