"""The baseline of a recording's rollouts, and whether it still matches them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from envwright.facts.recordings import split_of
from envwright.facts.results import task_key
from envwright.statistics.baseline import Baseline, read_baseline
from envwright.statistics.clusters import clustered_mean
from envwright.statistics.summary import mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from envwright_worker.splits import Split

    from envwright.facts.observed import Facts
    from envwright.facts.recordings import RecordedScore

DIGITS = 9
CONFIDENCE = 0.95


def measures(rows: Sequence[RecordedScore], share: Callable[[float], float]) -> dict[str, Any]:
    """The baseline of rows: counts, the mean with its interval, means of functions and of tasks.

    The interval is clustered by task (see `clustered_mean`). Rows without a reward count as
    rollouts and for nothing else. The means of tasks are in shares of the declared range, by
    `share`, as drift is measured.
    """
    by_task: dict[str, list[float]] = defaultdict(list)
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.reward is None:
            continue
        by_task[row.task_key].append(row.reward)
        for name, score in row.functions.items():
            if score is not None:
                scores[name].append(score)
    clusters = list(by_task.values())
    estimate = clustered_mean(clusters, CONFIDENCE) if clusters else None
    return {
        "rollouts": len(rows),
        "scored": sum(map(len, clusters)),
        "mean": None if estimate is None else _rounded(estimate.value),
        "interval": None if estimate is None else [_rounded(estimate.low), _rounded(estimate.high)],
        "confidence": CONFIDENCE,
        "functions": {
            name: {"mean": _rounded(mean(function_clusters)), "count": len(function_clusters)}
            for name, function_clusters in sorted(scores.items())
        },
        "tasks": {
            key: {"count": len(rewards), "mean": _rounded(mean([share(reward) for reward in rewards]))}
            for key, rewards in sorted(by_task.items())
        },
    }


def disagreements(baseline: Mapping[str, Any], rows: Sequence[RecordedScore]) -> list[str]:
    """The differences between a baseline and its rows. The interval and the tasks' shares are not compared: they follow
    from rows and from settings that may have changed since.
    """
    now = measures(rows, float)
    wrong = [
        f"{name} is {baseline.get(name)!r}, the rollouts have {now[name]!r}"
        for name in ("rollouts", "scored", "mean")
        if not _close(baseline.get(name), now[name])
    ]
    for name in sorted({*_table(baseline, "functions"), *now["functions"]}):
        there, here = _table(baseline, "functions").get(name), now["functions"].get(name)
        recorded, found = (each.get("mean") if isinstance(each, dict) else None for each in (there, here))
        if not _close(recorded, found):
            wrong.append(f"the mean of {name} is {recorded!r}, the rollouts have {found!r}")
    counts = {key: each.get("count") for key, each in _table(baseline, "tasks").items() if isinstance(each, dict)}
    if counts != {key: each["count"] for key, each in now["tasks"].items()}:
        wrong.append("its tasks are not those of the rollouts")
    return wrong


def baseline_for(baselines: Iterable[Mapping[str, Any]], facts: Facts, split: Split = "train") -> Baseline | None:
    """The recorded baseline of a current policy or model on this split, to measure drift against.

    A scripted policy draws the same replies on the same number of rollouts and others on
    more, so its baseline counts only if the number of rollouts is the same. In conversations the
    draws follow the order in which turns arrive, which no two runs share: no drift there.
    """
    conversational = facts.description is not None and facts.description.conversational
    for candidate in baselines:
        speaker = candidate.get("policy") or candidate.get("model")
        if speaker not in facts.rollouts_asked or split_of(candidate) != split:
            continue
        try:
            baseline = read_baseline({**candidate, "policy": speaker})
        except ValueError:
            continue  # REC002 reports its problem
        repeatable = not conversational and _counts(baseline) == _counts_now(str(speaker), facts)
        if candidate.get("model") or repeatable:
            return baseline
    return None


def _counts(baseline: Baseline) -> dict[str, int]:
    return {key: each.count for key, each in baseline.tasks.items()}


def _counts_now(speaker: str, facts: Facts) -> dict[str, int]:
    keys = {task.index: task_key(task.prompt, task.data) for task in facts.tasks}
    return dict(Counter(keys.get(each.task, "") for each in facts.rollouts if each.policy == speaker))


def _table(baseline: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = baseline.get(name)
    return table if isinstance(table, dict) else {}


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    return bool(one == other)


def _rounded(value: float) -> float | None:
    return round(value, DIGITS) if math.isfinite(value) else None
