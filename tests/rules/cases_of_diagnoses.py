"""Cases of the signatures of training runs that go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from envwright.rules.diagnosis import RunLog
from envwright.statistics.series import Series
from rule_cases import RuleCases
from run_subjects import SOUND, spec_of

SPEC = spec_of({**SOUND, "sampling": {"max_tokens": 512, "temperature": 0.8}, "max_concurrent": 64})
LEARNING = [min(0.9, 0.2 + step * 0.007) for step in range(100)]
"""A run that learns as one would like it to."""


def series(metric: str, values: Sequence[float]) -> Series:
    return Series(metric, tuple(enumerate(values)))


def run(reward: Sequence[float] = LEARNING, **changes: Any) -> RunLog:
    """A sound run with other metrics; lists of numbers are series."""
    found = {"reward": series("reward", reward)}
    more = {}
    for name, value in changes.items():
        if isinstance(value, list):
            found[name] = series(name, value)
        else:
            more[name] = value
    return RunLog(found, **{"spec": SPEC, "highest": 1.0, **more})


def steps(count: int, value: Callable[[int], float]) -> list[float]:
    return [value(step) for step in range(count)]


def wave(step: int) -> float:
    """Noise that is the same in every run."""
    return math.sin(step * 12.9898) * 0.5


def with_kl(value: Callable[[int], float], metric: str = "mismatch_kl/all/mean") -> RunLog:
    """A sound run of 60 steps with this KL divergence."""
    return replace(run(), series={**run().series, "kl": series(metric, steps(60, value))})


CASES = {
    "DGN001": RuleCases(
        fires={
            "nothing": run([0.0] * 40),
            "since the middle": run([0.3] * 30 + [0.0] * 30),
            "below a range of its own": run([-1.0] * 40, lowest=-1.0, highest=1.0),
        },
        silent={
            "learning": run(),
            "next to nothing": run(steps(60, lambda step: 0.005 + 0.004 * wave(step))),
            "late, and rising": run(steps(60, lambda step: 0.0 if step < 48 else 0.05)),
            "too early": run([0.0] * 10),
            "zero is the middle": run([0.0] * 40, lowest=-1.0, highest=1.0),
        },
    ),
    "DGN002": RuleCases(
        fires={
            "from the start": run([1.0] * 40),
            "of an unknown range": run([1.0] * 40, highest=None),
            "by now": run(steps(100, lambda step: min(1.0, 0.2 + step * 0.02))),
        },
        silent={
            "learning": run(),
            "nearly": run([0.97] * 40),
            "of a larger range": run([1.0] * 40, highest=2.0),
            "of an unknown range": run(steps(40, lambda step: 0.3 + 0.01 * step), highest=None),
        },
    ),
    "DGN003": RuleCases(
        fires={
            "little": run(steps(60, lambda step: 0.012 + 0.01 * wave(step))),
            "of an unknown range": run(steps(60, lambda step: 0.012 + 0.01 * wave(step)), highest=None),
        },
        silent={
            "learning": run(),
            "nothing at all": run([0.0] * 40),
            "rising": run(steps(60, lambda step: 0.001 * step)),
            "of a small range": run(steps(60, lambda step: 0.012 + 0.01 * wave(step)), highest=0.1),
        },
    ),
    "DGN004": RuleCases(
        fires={
            "flat": run(steps(60, lambda step: 0.4 + 0.04 * wave(step))),
            "falling": run(steps(60, lambda step: 0.6 - 0.002 * step + 0.04 * wave(step))),
            "too slow": run(steps(100, lambda step: 0.4 + 0.0001 * step + 0.01 * wave(step))),
        },
        silent={
            "learning": run(),
            "noisy": run(steps(24, lambda step: 0.4 + 0.4 * wave(step))),
            "slow, with many steps to go": run(
                steps(40, lambda step: 0.4 + 0.001 * step + 0.01 * wave(step)),
                spec=spec_of({**SOUND, "max_steps": 900}),
            ),
            "nothing earned": run([0.0] * 40),
            "everything earned": run([1.0] * 40),
        },
    ),
    "DGN005": RuleCases(
        fires={
            "between two levels": run(steps(60, lambda step: 0.75 if step // 10 % 2 else 0.15)),
            "slowly": run(steps(100, lambda step: 0.5 + 0.25 * math.sin(step / 8) + 0.02 * wave(step))),
            "at every step": run(steps(60, lambda step: 0.9 if step % 2 else 0.1)),
        },
        silent={
            "learning": run(),
            "noise of a batch": run(steps(60, lambda step: 0.4 + 0.004 * step + 0.2 * wave(step))),
        },
    ),
    "DGN006": RuleCases(
        fires={"old": run(off_policy=[12.0] * 40, spec=spec_of({**SOUND, "max_off_policy_steps": 8}))},
        silent={
            "young": run(off_policy=[2.0] * 40, spec=spec_of({**SOUND, "max_off_policy_steps": 8})),
            "no limit is declared": run(off_policy=[12.0] * 40),
        },
    ),
    "DGN007": RuleCases(
        fires={"most": run(zero_variance=[0.7] * 30)},
        silent={"few": run(zero_variance=[0.2] * 30), "at first only": run(zero_variance=[0.9] * 10 + [0.2] * 30)},
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
        fires={
            "loss": run(broken={"loss/mean": (41, 42)}),
            "gradient": run(broken={"optim/grad_norm": (7,)}),
            "dropped": run(log="Dropping 1 non-finite value(s) from metrics.jsonl: loss/mean"),
            "not logged any more": run(stopped={"loss/mean": 40}),
        },
        silent={
            "nothing": run(),
            "of no weight": run(broken={"time/eta": (1,)}),
            "dropped, of no weight": run(log="Dropping 1 non-finite value(s) from metrics.jsonl: time/eta"),
        },
    ),
    "DGN012": RuleCases(
        fires={"growing": with_kl(lambda step: 0.002 * math.exp(step / 12))},
        silent={
            "steady": with_kl(lambda step: 0.02 + 0.01 * wave(step)),
            "small": with_kl(lambda step: 0.0001 * step),
            "from a reference": with_kl(lambda step: 0.01 * step, "kl"),
        },
    ),
    "DGN017": RuleCases(
        fires={
            "growing": run(grad_norm=steps(60, lambda step: 0.4 * math.exp(step / 15))),
            "spikes": run(grad_norm=steps(60, lambda step: 9.0 if step in (40, 47, 55) else 0.4)),
        },
        silent={
            "steady": run(grad_norm=steps(60, lambda step: 0.4 + 0.2 * wave(step))),
            "one spike": run(grad_norm=steps(60, lambda step: 9.0 if step == 40 else 0.4)),
        },
    ),
    "DGN018": RuleCases(fires={"paused": run(status="PAUSED")}, silent={"running": run(status="RUNNING")}),
    "DGN013": RuleCases(fires={"some": run(missing_steps=(3, 4, 5))}, silent={"none": run()}),
    "DGN014": RuleCases(
        fires={"failed": run(status="FAILED"), "stopped": run(status="STOPPED"), "gone": run(status="MISSING")},
        silent={"running": run(status="RUNNING"), "done": run(status="COMPLETED"), "elsewhere": run()},
    ),
    "DGN015": RuleCases(
        fires={"few": run([0.1] * 5), "no reward": RunLog({}, SPEC)},
        silent={
            "enough": run(),
            "gone anyway": run([0.1] * 5, status="FAILED"),
            "no reward among others": RunLog({}, SPEC, names=("loss/mean",)),
        },
    ),
    "DGN016": RuleCases(
        fires={"another name": RunLog({}, SPEC, names=("env/score/mean", "loss/mean"))},
        silent={"no log": RunLog({}, SPEC), "known": replace(run(), names=("reward",))},
    ),
}
