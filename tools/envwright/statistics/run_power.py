"""What a run costs in samples and what its evaluation can detect, from recorded rewards, before anything is paid.

Each number comes as text with its formula, because people decide on it in a pull request.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from envwright.statistics.clusters import Clusters, variance_parts
from envwright.statistics.groups import predicted_live
from envwright.statistics.intervals import t_quantile, wilson_of
from envwright.statistics.summary import mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

POWER, CONFIDENCE = 0.8, 0.95
MOST_NAMED = 5


def detectable_effect(within: float, tasks: int, rollouts: int) -> float:
    """The smallest mean change that a paired comparison detects with 80 % power at 5 %, in units of the reward.

    (t + z) · √(2 · within / rollouts / tasks): each side plays each task `rollouts` times, so the difference of a
    task has the variance of both means. Tasks that change by unequal amounts add variance that no recording of one
    policy shows, so this is the least. Infinite with fewer than two tasks.

    Source: E. Miller, "Adding Error Bars to Evals", arXiv 2411.00640 (its power analysis of paired differences),
    with Student's t over tasks in place of z for the level.
    """
    level = t_quantile(CONFIDENCE, tasks - 1)
    return (level + NormalDist().inv_cdf(POWER)) * math.sqrt(2 * within / rollouts / max(1, tasks))


def informative_groups(clusters: Clusters, size: int, groups: float) -> float | None:
    """Expected groups of a step that have variance, at the recorded rates; `None` without a task of two rollouts.

    groups · mean over tasks of 1 − Σ pᵥᴳ, which is 1 − pᴳ − (1 − p)ᴳ for rewards of two values (`predicted_live`).
    """
    several = [cluster for cluster in clusters if len(cluster) > 1]
    return groups * mean([predicted_live(cluster, size) for cluster in several]) if several else None


def size_lines(clusters: Clusters, *, batch: float, size: int, tokens: float | None) -> Iterator[str]:
    """The size of a training step in one environment; unknown without recorded rewards."""
    groups = batch / size
    yield f"rollouts per step: {batch:g} = {groups:g} groups of {size}"
    yield (
        "sampled tokens per step: unknown without recorded tokens"
        if tokens is None
        else (f"sampled tokens per step: about {batch * tokens:,.0f} (rollouts × {tokens:,.0f} recorded tokens)")
    )
    live = informative_groups(clusters, size, groups)
    method = "groups × mean over recorded tasks of 1 − Σ pᵥ^G"
    yield (
        f"informative groups per step: unknown without a recording of a model ({method})"
        if live is None
        else (f"informative groups per step: about {live:.1f} of {groups:g} ({method})")
    )


def prompt_line(prompt_tokens: float | None, turns: float | None) -> str:
    """Recorded means of one rollout: prompt tokens, counted again in each turn as providers do, and replies."""
    tokens = "unknown without recorded tokens" if prompt_tokens is None else f"about {prompt_tokens:,.0f}"
    replies = "unknown without recorded conversations" if turns is None else f"{turns:.2g}"
    return f"prompt tokens per rollout: {tokens}; turns: {replies} (recorded means)"


def never_learned_line(rewards: Mapping[str, Sequence[float]], floor: float) -> str | None:
    """The tasks that earned at most `floor` in every recorded try; `None` if each of them earned more once.

    A try without success is no proof: each task has the upper end of Wilson's interval of its success rate.
    """
    never = {task: len(tries) for task, tries in rewards.items() if tries and max(tries) <= floor}
    if not never:
        return None
    most = sorted(never, key=lambda task: (-never[task], task))
    named = [
        f"{task} (0 of {never[task]}, true rate up to {wilson_of(0, never[task], CONFIDENCE).high:.0%})"
        for task in most[:MOST_NAMED]
    ]
    more = f" and {len(most) - MOST_NAMED} more" if len(most) > MOST_NAMED else ""
    return (
        f"never earned more than {floor:g}: {len(most)} of {len(rewards)} recorded tasks: {', '.join(named)}{more} "
        "(Wilson, 95 %)"
    )


def power_line(clusters: Clusters, *, tasks: int | None, rollouts: int) -> str:
    """The smallest effect that the evaluation detects; unknown without the number of tasks or repeated rollouts."""
    if tasks is None or not any(len(cluster) > 1 for cluster in clusters):
        return "detectable effect: unknown without eval.tasks and a recording with several rollouts of each task"
    within = variance_parts(clusters).within
    if within == 0:
        return "detectable effect: unknown, because the recorded rollouts of each task all earned the same"
    effect = detectable_effect(within, tasks, rollouts)
    return (
        f"detectable effect: {effect:.3g} or more in the mean reward, with 80 % power at 5 %, over {tasks} tasks with "
        f"{rollouts} rollouts each ((t + z) · √(2 · variance within tasks / rollouts / tasks), paired by task)"
    )
