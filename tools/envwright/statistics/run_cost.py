"""The GPU hours of a run before it starts, as a range: FLOPs / (peak × utilization), from recorded tokens.

N is the number of parameters that a token passes, embeddings included. FLOPs of a token:

    training    6·N (forward 2, backward 4), with LoRA 4·N: frozen weights need no gradient of their own. Attention
                adds 12 · layers · width · length. Adapters are not counted. Sources: Chowdhery et al., PaLM (arXiv
                2204.02311), appendix B; prime-rl 559b447, trainer/perf.py.
    sampling    2·N (Pope et al., arXiv 2211.05102, section 2).

Tokens of a rollout, from recorded means of prompts P (counted again in each turn), replies C and turns T: one growing
conversation has at least max((P + C) / T, C) tokens, and T separate samples have P + C.

Training and sampling GPUs work at the same time, at best as long as the slower of the two needs, and at worst one
after the other; all of them are paid for until the end. Evaluations, start, weight updates, waiting for tools or
judges, and rollouts that a filter drops are not counted, so a run can take more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envwright.statistics.model_memory import ModelShape

SECONDS = 3600.0
PREFILL, DECODE = (0.43, 0.76), (0.14, 0.33)
"""Utilization of the peak in sampling: measured for latency and for throughput (Pope et al., table 2)."""
ASSUMED_GPU = "H100"


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
        """Duration × all GPUs."""
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
        training.append(train / trained / gpu.flops / placed.train / SECONDS)
        sampling.append(sample / gpu.flops / placed.sample / SECONDS)
    return HourRange((training[0], training[1]), (sampling[0], sampling[1]), placed.train + placed.sample)
