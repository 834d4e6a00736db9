"""Cases of the signatures of training runs that go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from envops.rules.diagnosis.subject import Diagnosed
from envops.statistics.series import Series
from rule_cases import RuleCases
from run_subjects import SOUND, spec_of

SPEC = spec_of({**SOUND, "sampling": {"max_tokens": 512, "temperature": 0.8}, "max_concurrent": 64})
LEARNING = [min(0.9, 0.2 + step * 0.007) for step in range(100)]
"""A run that learns as one would like it to."""


def series(metric: str, values: Sequence[float]) -> Series:
    return Series(metric, tuple(enumerate(values)))


def run(reward: Sequence[float] = LEARNING, **changes: Any) -> Diagnosed:
    """A sound run with other metrics; lists of numbers are series."""
    found = {"reward": series("reward", reward)}
    more = {}
    for name, value in changes.items():
        if isinstance(value, list):
            found[name] = series(name, value)
        else:
            more[name] = value
    return Diagnosed(found, **{"spec": SPEC, "planned_steps": 200, **more})


def steps(count: int, value: Callable[[int], float]) -> list[float]:
    return [value(step) for step in range(count)]


def wave(step: int) -> float:
    """Noise that is the same in every run."""
    return math.sin(step * 12.9898) * 0.5


CASES = {
    "DGN001": RuleCases(
        fires={
            "nothing": run([0.0] * 40),
            "next to nothing": run(steps(60, lambda step: 0.005 + 0.004 * wave(step))),
            "below a range of its own": run([-1.0] * 40, lowest=-1.0, highest=1.0),
        },
        silent={
            "learning": run(),
            "late, and rising": run(steps(60, lambda step: 0.0 if step < 48 else 0.05)),
            "too early": run([0.0] * 10),
            "zero is the middle": run([0.0] * 40, lowest=-1.0, highest=1.0),
        },
    ),
    "DGN002": RuleCases(
        fires={
            "from the start": run([0.98] * 40),
            "by now": run(steps(100, lambda step: min(0.99, 0.2 + step * 0.01))),
        },
        silent={"learning": run(), "of a larger range": run([0.98] * 40, highest=2.0)},
    ),
    "DGN003": RuleCases(
        fires={
            "swings": run(steps(60, lambda step: 0.5 + 0.3 * (-1) ** step)),
            "fell": run(steps(80, lambda step: 0.6 if step < 40 else 0.1)),
        },
        silent={
            "noise": run(steps(80, lambda step: 0.5 + 0.05 * wave(step))),
            "rising": run(),
            "little lost": run(steps(80, lambda step: 0.6 if step < 40 else 0.5)),
        },
    ),
    "DGN004": RuleCases(
        fires={"slow": run(steps(100, lambda step: 0.1 + step * 0.0005))},
        silent={
            "fast": run(),
            "flat": run([0.3] * 100),
            "nothing is planned": run(steps(100, lambda step: 0.1 + step * 0.0005), planned_steps=None),
        },
    ),
    "DGN005": RuleCases(
        fires={
            "entropy": run(entropy=steps(60, lambda step: 1.0 / (1 + step))),
            "spread of rewards": run([0.4] * 60, reward_std=steps(60, lambda step: 0.4 if step < 30 else 0.02)),
        },
        silent={
            "steady": run(entropy=[0.8] * 60),
            "at the top": run([0.99] * 60, reward_std=steps(60, lambda step: 0.4 if step < 30 else 0.01)),
            "too early": run(entropy=[1.0, 0.1]),
        },
    ),
    "DGN006": RuleCases(
        fires={
            "mismatch grows": run(kl=steps(60, lambda step: 0.005 * 1.06**step)),
            "rollouts are old": run(off_policy=[12.0] * 40, spec=spec_of({**SOUND, "max_off_policy_steps": 8})),
        },
        silent={
            "small": run(kl=[0.01] * 60),
            "grows from nothing to little": run(kl=steps(60, lambda step: 0.0001 * step)),
            "young": run(off_policy=[2.0] * 40, spec=spec_of({**SOUND, "max_off_policy_steps": 8})),
        },
    ),
    "DGN007": RuleCases(
        fires={"most": run(dead_groups=[0.7] * 30)},
        silent={"few": run(dead_groups=[0.2] * 30), "at first only": run(dead_groups=[0.9] * 10 + [0.2] * 30)},
    ),
    "DGN008": RuleCases(
        fires={"a third": run(truncated=[0.3] * 30)}, silent={"hardly any": run(truncated=[0.02] * 30)}
    ),
    "DGN009": RuleCases(
        fires={"a tenth": run(errors=[0.1] * 30)}, silent={"one in a hundred": run(errors=[0.01] * 30)}
    ),
    "DGN010": RuleCases(
        fires={
            "of torch": run(log="step 3\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\nbye"),
            "of vllm": run(log="ValueError: No available memory for the cache blocks."),
            "of the kernel": run(log="[1.2] oom-kill:constraint=CONSTRAINT_MEMCG"),
        },
        silent={"nothing printed": run(), "talk of memory": run(log="gpu memory utilization 0.9")},
    ),
    "DGN011": RuleCases(
        fires={"loss": run(broken={"loss/mean": (41, 42)}), "gradient": run(broken={"optim/grad_norm": (7,)})},
        silent={"nothing": run(), "of no weight": run(broken={"time/eta": (1,)})},
    ),
    "DGN012": RuleCases(
        fires={"once": run(grad_norm=[1.0] * 38 + [40.0, 1.0])},
        silent={"steady": run(grad_norm=[1.0] * 40), "long ago": run(grad_norm=[40.0] + [1.0] * 40)},
    ),
    "DGN013": RuleCases(fires={"some": run(missing_steps=(3, 4, 5))}, silent={"none": run()}),
    "DGN014": RuleCases(
        fires={"failed": run(status="FAILED"), "stopped": run(status="STOPPED"), "gone": run(status="MISSING")},
        silent={"running": run(status="RUNNING"), "done": run(status="COMPLETED"), "elsewhere": run()},
    ),
    "DGN015": RuleCases(
        fires={"few": run([0.1] * 5), "no reward": Diagnosed({}, SPEC)},
        silent={"enough": run(), "gone anyway": run([0.1] * 5, status="FAILED")},
    ),
}
