"""What was measured before: the mean reward of each task, to be compared with task by task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envops.facts.results import task_key
from envops.statistics.summary import mean

if TYPE_CHECKING:
    from envops.facts.observed import Facts
    from envops.statistics.outcomes import Sample, Task

VERSION = 1


@dataclass(frozen=True)
class TaskBaseline:
    """What one task earned."""

    count: int
    mean: float
    """Of the rewards as shares of the declared range."""


@dataclass(frozen=True)
class Baseline:
    """One policy or model on the tasks of one environment, as it was measured then."""

    policy: str
    digest: str
    """Of the package that was measured."""
    tasks: Mapping[str, TaskBaseline]
    """Fingerprint of a task's content → what it earned; indices move, content does not."""


def means_now(sample: Sample, facts: Facts) -> dict[str, float]:
    """The mean share of each task of a sample, by fingerprint."""
    keyed = ((key_of(task, facts), shares) for task, shares in sample.shares.items())
    return {key: mean(shares) for key, shares in keyed if key is not None}


def key_of(task: Task, facts: Facts) -> str | None:
    """The fingerprint of a task; `None` for an index of which nothing is known."""
    if isinstance(task, str):
        return task
    known = facts.tasks[task] if task < len(facts.tasks) and facts.tasks[task].index == task else None
    known = known or next((each for each in facts.tasks if each.index == task), None)
    return None if known is None else task_key(known.prompt, known.data)


def read_baseline(data: Any) -> Baseline:
    """A baseline from the data of a file; raises `ValueError` when it is none."""
    try:
        if data["version"] != VERSION:
            raise ValueError(f"a baseline of version {data['version']!r}, this release reads {VERSION}")
        tasks = {str(key): TaskBaseline(int(each["count"]), float(each["mean"])) for key, each in data["tasks"].items()}
        baseline = Baseline(str(data["policy"]), str(data["digest"]), tasks)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a baseline: {type(error).__name__}: {error}") from None
    if not all(each.count > 0 and math.isfinite(each.mean) for each in tasks.values()):
        raise ValueError("a task of the baseline has no rollouts or no finite mean")
    return baseline
