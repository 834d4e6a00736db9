"""What a run costs before it starts, in GPU hours and samples, and what its evaluation can detect.

Each number comes as text with its formula, because people decide on it in a pull request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from envwright.statistics.intervals import Clusters, mean, t_quantile, variance_parts, wilson_of
from envwright.statistics.measures import predicted_live

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from envwright.statistics.model_memory import ModelShape

SECONDS_PER_HOUR = 3600.0
PREFILL, DECODE = (0.43, 0.76), (0.14, 0.33)
"""Utilization of the peak in sampling: measured for latency and for throughput (Pope et al., table 2)."""
ASSUMED_GPU = "H100"
POWER, CONFIDENCE = 0.8, 0.95
MOST_NAMED = 5


@dataclass(frozen=True)
class Gpu:
    """One type of GPU, by its vendor's data sheet, and the utilization that prime-rl measured on it."""

    flops: float
    """Dense bfloat16 operations in a second at peak."""
    bandwidth: float
    """Bytes read from its memory in a second."""
    dense: tuple[float, float] = (0.109, 0.375)
    experts: tuple[float, float] = (0.028, 0.292)
    """Least and most utilization of the RL rows in prime-rl 559b447, benchmarks/results/BENCHMARKS.md."""


BLACKWELL = {"dense": (0.065, 0.123), "experts": (0.019, 0.069)}
GPUS = {
    "GB300": Gpu(2500e12, 8.0e12, **BLACKWELL),
    "GB200": Gpu(2500e12, 8.0e12, **BLACKWELL),
    "B300": Gpu(2250e12, 8.0e12, **BLACKWELL),
    "B200": Gpu(2250e12, 8.0e12, **BLACKWELL),
    "H200": Gpu(989e12, 4.8e12),
    "H100": Gpu(989e12, 3.35e12),
    "A100": Gpu(312e12, 2.039e12),
    "L40S": Gpu(362e12, 0.864e12),
}
"""NVIDIA's data sheets, SXM where there are several. The utilization of A100 and L40S is assumed to be that of H100."""


def gpu_of(type_name: str | None) -> tuple[str, Gpu] | None:
    """A GPU by the platform's name of its type, such as H200_141GB; an H100 without one, `None` if it is unknown."""
    name = type_name or ASSUMED_GPU
    return next(((known, gpu) for known, gpu in GPUS.items() if name.upper().startswith(known)), None)


@dataclass(frozen=True)
class SampledWork:
    """The rollouts of a run in one environment, with the recorded means of one."""

    rollouts: float
    prompt: float
    """Prompt tokens, counted again in each turn."""
    sampled: float
    turns: float | None

    @property
    def lengths(self) -> tuple[float, float]:
        """The fewest and the most tokens of a rollout that are computed."""
        both = self.prompt + self.sampled
        return max(both / max(self.turns, 1.0), self.sampled) if self.turns else self.sampled, both


@dataclass(frozen=True)
class RunGpus:
    """The GPUs of a run, and how it uses them."""

    gpu: Gpu
    train: int
    sample: int
    tensor_parallel: int
    in_flight: int
    """Rollouts that are sampled at a time."""
    lora: bool


@dataclass(frozen=True)
class HourRange:
    """Hours of a whole run, from the best to the worst case."""

    training: tuple[float, float]
    sampling: tuple[float, float]
    gpus: int

    @property
    def hours(self) -> tuple[float, float]:
        """The duration: at least that of the slower part, at most that of both."""
        return max(self.training[0], self.sampling[0]), self.training[1] + self.sampling[1]

    @property
    def gpu_hours(self) -> tuple[float, float]:
        return self.hours[0] * self.gpus, self.hours[1] * self.gpus


def training_flops(shape: ModelShape, length: float, *, lora: bool) -> float:
    """FLOPs of the forward and backward pass of one token in a sequence; without attention if the width is unknown."""
    return (4 if lora else 6) * shape.active + 12.0 * shape.layers * shape.width * length


def sampling_flops(shape: ModelShape) -> float:
    """FLOPs of the forward pass of one token."""
    return 2 * shape.active


def hour_range(works: Sequence[SampledWork], shape: ModelShape, placed: RunGpus) -> HourRange:
    """The hours that these rollouts take; `shape` has its active parameters.

    Replies are sampled one token at a time, and each time the weights, 2 bytes each, are read once for the B rollouts
    of a copy. If all experts are read, the utilization is at most B · bandwidth / peak · active share (the roofline).
    """
    gpu = placed.gpu
    low, high = gpu.experts if shape.active < shape.parameters else gpu.dense
    copies = max(placed.sample // placed.tensor_parallel, 1)
    roof = max(placed.in_flight / copies, 1.0) * gpu.bandwidth / gpu.flops * shape.active / shape.parameters
    decode = (min(DECODE[0], roof), DECODE[1])
    training, sampling = [], []
    for end, trained in enumerate((high, low)):
        prefilled, decoded = PREFILL[1 - end], decode[1 - end]
        train = sample = 0.0
        for work in works:
            length = work.lengths[end]
            train += work.rollouts * length * training_flops(shape, length, lora=placed.lora)
            effort = (length - work.sampled) / prefilled + work.sampled / decoded
            sample += work.rollouts * effort * sampling_flops(shape)
        training.append(train / trained / gpu.flops / placed.train / SECONDS_PER_HOUR)
        sampling.append(sample / gpu.flops / placed.sample / SECONDS_PER_HOUR)
    return HourRange((training[0], training[1]), (sampling[0], sampling[1]), placed.train + placed.sample)


def least_gpu_hours(
    works: Sequence[SampledWork], shape: ModelShape, placed: tuple[str, Gpu], price: float | None, *, lora: bool
) -> str:
    """The GPU hours of these rollouts at the peak of the GPUs, for a trainer whose use of them was not measured."""
    name, gpu = placed
    lengths = ((work.rollouts, work.lengths[0]) for work in works)
    flops = sum(
        rollouts * length * (training_flops(shape, length, lora=lora) + sampling_flops(shape))
        for rollouts, length in lengths
    )
    hours = flops / gpu.flops / SECONDS_PER_HOUR
    dollars = "dollars unknown, no price" if price is None else f"${hours * price:,.2f}"
    return f"at least {hours:.3g} GPU hours ({name}), {dollars}: FLOPs / peak, as its use of the GPUs was not measured"


def charged_tokens(works: Sequence[SampledWork], model: str) -> str:
    """The tokens of these rollouts, which a service charges for by prices that its packages do not have."""
    prompt = sum(work.rollouts * work.prompt for work in works) / 1e6
    sampled = sum(work.rollouts * work.sampled for work in works) / 1e6
    trained = sum(work.rollouts * work.lengths[0] for work in works) / 1e6
    return (
        f"no GPUs of yours; dollars unknown, Tinker charges by token: about {prompt:,.3g} million of prompts, "
        f"{sampled:,.3g} sampled and at least {trained:,.3g} trained, at its prices of {model}"
    )


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
    sampled = "unknown without recorded tokens"
    if tokens is not None:
        sampled = f"about {batch * tokens:,.0f} (rollouts × {tokens:,.0f} recorded tokens)"
    yield f"sampled tokens per step: {sampled}"
    live = informative_groups(clusters, size, groups)
    informative = "unknown without a recording of a model" if live is None else f"about {live:.1f} of {groups:g}"
    yield f"informative groups per step: {informative} (groups × mean over recorded tasks of 1 − Σ pᵥ^G)"


def prompt_line(prompt_tokens: float | None, turns: float | None) -> str:
    """Recorded means of one rollout: prompt tokens, counted again in each turn as providers do, and replies."""
    tokens = "unknown without recorded tokens" if prompt_tokens is None else f"about {prompt_tokens:,.0f}"
    replies = "unknown without recorded conversations" if turns is None else f"{turns:.2g}"
    return f"prompt tokens per rollout: {tokens}; turns: {replies} (recorded means)"


def never_learned_line(
    rewards: Mapping[str, Sequence[float]], floor: float, source: str = "recorded tasks"
) -> str | None:
    """The tasks that earned at most `floor` in every try of the source; `None` if each of them earned more once.

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
        f"never earned more than {floor:g}: {len(most)} of {len(rewards)} {source}: {', '.join(named)}{more} "
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
