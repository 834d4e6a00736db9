"""What changed since the base: applied where two versions were compared, silent everywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envops.facts.observed import Place
from envops.facts.reward_numbers import number
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import of_functions, reply_text, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.statistics.reward_comparison import RewardComparison, ScoredReply


def _versions(comparison: RewardComparison) -> str:
    before, after = comparison.versions.each(lambda version: version.version)
    return f"the version is still {after}" if before == after else f"the version went from {before} to {after}"


def _of_reply(reply: ScoredReply) -> dict[str, Any]:
    return {
        "task": reply.tasks.after,
        "policy": reply.said_by,
        "reply": shortened(reply_text(reply.completion)),
        "reward_at_base": reply.scores.before.reward,
        "reward": reply.scores.after.reward,
        "functions_at_base": of_functions(reply.scores.before.functions),
        "functions": of_functions(reply.scores.after.functions),
    }


def _found(comparison: RewardComparison, message: str, place: Place | None) -> Found:
    changed = comparison.paid_differently
    evidence = _of_reply(changed[0]) | {"count": len(changed), "of": len(comparison.replies)}
    return Found(f"{message} ({len(changed)} of {len(comparison.replies)} replies)", evidence, place)


def _change(comparison: RewardComparison) -> str:
    first = comparison.paid_differently[0]
    if first.reward_changed:
        return (
            f"{first.said_by} on task {first.tasks.after} earns {number(first.scores.after.reward)}, at the base "
            + number(first.scores.before.reward)
        )
    name = first.changed_functions[0]
    before, after = first.scores.each(lambda scoring: scoring.functions[name].score)
    return f"{name} gives {first.said_by} on task {first.tasks.after} {number(after)}, at the base {number(before)}"


@rule("RWD090", gate="rewards", compares=True)
def rewards_changed_without_a_new_version(subject: Subject) -> Iterator[Found]:
    """Rewards changed since the base, and the version did not.

    What: Of one corpus of replies (policies, cases, rollouts), scored by the base's code and by this, every reply earns
    the same, unless project.version was raised. Only with `envops rewards diff`.
    Why: Under one version number, two training runs optimise two things, and nobody can tell their results apart.
    Fix: Raise project.version in pyproject.toml; or undo the change of the reward if it was not meant.
    """
    comparison = subject.comparison
    if comparison is None or comparison.is_port or comparison.bumped:
        return
    place = Place(*subject.package.place_of("project.version"))
    if comparison.paid_differently:
        yield _found(comparison, f"{_change(comparison)}; {_versions(comparison)}", place)
    elif not comparison.replies:
        message = f"no task could be matched with one at {comparison.versions.before.label}, so no reward was compared"
        evidence = {
            "tasks_only_at_base": len(comparison.unmatched_tasks.before),
            "tasks_only_here": len(comparison.unmatched_tasks.after),
        }
        yield Found(f"{message}; {_versions(comparison)}", evidence, place, inconclusive=True)


@rule("RWD091", gate="rewards", severity="advice", compares=True)
def rewards_changed_with_a_new_version(subject: Subject) -> Iterator[Found]:
    """Rewards changed since the base, under a new version.

    What: The same comparison as RWD090, where project.version was raised.
    Why: A reviewer should see what a new version pays for, and runs that resume should not take it unaware.
    Fix: Nothing to mend where the change is meant; say in the pull request why it is.
    """
    comparison = subject.comparison
    if comparison is None or comparison.is_port or not comparison.bumped or not comparison.paid_differently:
        return
    place = Place(*subject.package.place_of("project.version"))
    yield _found(comparison, f"{_change(comparison)}; {_versions(comparison)}", place)


@rule("RWD092", gate="rewards", compares=True)
def port_pays_differently(subject: Subject) -> Iterator[Found]:
    """A port does not pay what its original pays.

    What: Two packages of different names, compared with `envops rewards diff --against FOLDER`, give every reply of the
    corpus the same total and the same score by every function of the same name.
    Why: A port is trusted because it is equal; where it is not, results of the two do not compare.
    Fix: Mend the port; where the difference is meant, say so in its README and ignore the rule with that reason.
    """
    comparison = subject.comparison
    if comparison is None or not comparison.is_port:
        return
    if comparison.paid_differently:
        yield _found(comparison, f"{_change(comparison)} ({comparison.versions.before.name})", None)
    elif not comparison.replies:
        message = f"no task could be matched with one of {comparison.versions.before.name}, so nothing was compared"
        yield Found(message, {"tasks_there": len(comparison.unmatched_tasks.before)}, inconclusive=True)
