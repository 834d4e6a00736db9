"""Rules of changes since the base. They apply only if two versions were compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envwright.facts.observed import Place
from envwright.facts.reward_numbers import number
from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import EarnedReward, Evidence, of_functions, of_reply, shown_reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envwright.facts.observed import Facts
    from envwright.statistics.reward_comparison import RewardComparison, ScoredReply


def _versions(comparison: RewardComparison) -> str:
    before, after = comparison.versions.each(lambda version: version.version)
    return f"the version is still {after}" if before == after else f"the version went from {before} to {after}"


def _of_reply(facts: Facts, reply: ScoredReply) -> Evidence:
    shown = shown_reply(reply.tasks.after, reply.completion, reply.said_by)
    return replace(
        of_reply(facts, shown, EarnedReward(reply.scores.after.reward, reply.scores.after.functions)),
        details={
            "reward_at_base": reply.scores.before.reward,
            "functions_at_base": of_functions(reply.scores.before.functions),
        },
    )


def _finding(
    facts: Facts, comparison: RewardComparison, changed: Sequence[ScoredReply], message: str, place: Place | None
) -> Found:
    evidence = replace(_of_reply(facts, changed[0]), count=len(changed), of=len(comparison.replies))
    return Found(f"{message} ({len(changed)} of {len(comparison.replies)} replies)", evidence, place)


def _change(first: ScoredReply) -> str:
    if first.reward_changed:
        return (
            f"{first.said_by} on task {first.tasks.after} earns {number(first.scores.after.reward)}, at the base "
            + number(first.scores.before.reward)
        )
    name = first.changed_functions[0]
    before, after = first.scores.each(lambda scoring: scoring.functions[name].score)
    on_task = f"{first.said_by} on task {first.tasks.after}"
    return f"{name} scores the reply of {on_task} {number(after)}, at the base {number(before)}"


@rule("RWD090", gate="rewards", compares=True, protects="releases")
def rewards_changed_without_a_new_version(subject: Subject) -> Iterator[Found]:
    """Rewards changed since the base, and the version did not.

    What: Every reply of one corpus (policies, cases, rollouts), scored by the base's code and by this code, earns the
        same, unless project.version was raised. Only with `envwright rewards diff`.
    Why: Results of training runs cannot be compared. Under one version number, two runs optimize two different
        rewards.
    Fix: Raise project.version in pyproject.toml. If the change of the reward was not intended, undo it.
    """
    comparison = subject.comparison
    if comparison is None or comparison.is_port or comparison.bumped:
        return
    place = Place(*subject.package.place_of("project.version"))
    changed = comparison.paid_differently
    if changed:
        yield _finding(subject.facts, comparison, changed, f"{_change(changed[0])}; {_versions(comparison)}", place)
    elif not comparison.replies:
        message = f"no task could be matched with one at {comparison.versions.before.label}, so no reward was compared"
        only = {
            "tasks_only_at_base": len(comparison.unmatched_tasks.before),
            "tasks_only_here": len(comparison.unmatched_tasks.after),
        }
        yield Found(f"{message}; {_versions(comparison)}", Evidence(details=only), place, inconclusive=True)


@rule("RWD091", gate="rewards", severity="advice", compares=True)
def rewards_changed_with_a_new_version(subject: Subject) -> Iterator[Found]:
    """Rewards changed since the base, under a new version.

    What: The same comparison as RWD090, if project.version was raised.
    Why: A reviewer should see what a new version rewards, and resumed runs should not adopt it unnoticed.
    Fix: Nothing to fix if the change is intended. Give the reason in the pull request.
    """
    comparison = subject.comparison
    if comparison is None or comparison.is_port or not comparison.bumped or not comparison.paid_differently:
        return
    place = Place(*subject.package.place_of("project.version"))
    changed = comparison.paid_differently
    yield _finding(subject.facts, comparison, changed, f"{_change(changed[0])}; {_versions(comparison)}", place)


@rule("RWD092", gate="rewards", compares=True)
def port_pays_differently(subject: Subject) -> Iterator[Found]:
    """A port does not reward the same as its original.

    What: Two packages of different names, compared with `envwright rewards diff --against FOLDER`, give every reply of
        the corpus the same total and the same score by every function of the same name, metrics included.
    Why: A port is trusted because it is equal. Otherwise results of the two cannot be compared.
    Fix: Fix the port. If the difference is intended, document it in the README and ignore the rule with that reason.
    """
    comparison = subject.comparison
    if comparison is None or not comparison.is_port:
        return
    changed = comparison.changed
    if changed:
        message = f"{_change(changed[0])} ({comparison.versions.before.name})"
        yield _finding(subject.facts, comparison, changed, message, None)
    elif not comparison.replies:
        message = f"no task could be matched with one of {comparison.versions.before.name}, so nothing was compared"
        only = {"tasks_there": len(comparison.unmatched_tasks.before)}
        yield Found(message, Evidence(details=only), inconclusive=True)
