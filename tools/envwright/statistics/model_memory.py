"""The memory that a model takes on GPUs in training and sampling: lower bounds, each with its formula and source.

Training (prime-rl 559b447, trainer/model.py and configs/trainer.py): weights are held in float32 (`optimization_dtype`)
and sharded by FSDP over all training GPUs. Gradients have the weights' type. AdamW keeps two moments in float32;
`optim_cpu_offload`, which is on by default, moves them to the GPU for each step (trainer/optim/state_offload.py), so
the peak includes them. With LoRA, gradients and moments exist for the adapter only. Bytes of a parameter:

    full fine-tuning   4 weights + 4 gradients + 8 moments = 16
    LoRA               4 weights; adapters are small and not counted

Sampling (vLLM): weights in bfloat16, 2 bytes of a parameter, split over `tensor_parallel` GPUs. A token of the KV cache
takes 2 (key and value) × layers × key-value heads × head dimension × 2 bytes. vLLM uses 90 % of a GPU
(`gpu_memory_utilization`, prime-rl configs/inference.py) and refuses to start if one sequence does not fit.

Activations and buffers are not counted: they depend on checkpointing and kernels. What does not fit here cannot fit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

GIB = 2**30
WEIGHT_BYTES, GRADIENT_BYTES, MOMENT_BYTES = 4, 4, 8
SAMPLED_WEIGHT_BYTES, KV_BYTES = 2, 2
UTILIZATION = 0.9
TIGHT = 0.8
"""The share of a GPU's memory above which activations of the training are unlikely to fit beside its state."""
ASSUMED_GIB, LARGE_GIB = 80.0, 141.0
"""Memory of one GPU, if its type is not declared: that of an H100 or A100, and what an H200 has at best."""


@dataclass(frozen=True)
class ModelShape:
    """The size of a model; without layers its KV cache is unknown."""

    parameters: float
    layers: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    by_name: bool = False
    """Whether only the size in its name is known."""
    width: int = 0
    """The hidden size; 0 if unknown."""
    active: float = 0.0
    """Parameters that one token passes: fewer than all in a mixture of experts, 0 if unknown."""

    @property
    def kv_token_bytes(self) -> float:
        """Bytes of one token in the KV cache; 0 if unknown."""
        return 2.0 * self.layers * self.kv_heads * self.head_dim * KV_BYTES


KNOWN: dict[str, ModelShape] = {
    name: ModelShape(billions * 1e9, layers, heads, head, width=width, active=active * 1e9)
    for name, billions, active, layers, heads, head, width in (
        ("Qwen3-0.6B", 0.596, 0.596, 28, 8, 128, 1024),
        ("Qwen3-1.7B", 1.72, 1.72, 28, 8, 128, 2048),
        ("Qwen3-4B", 4.02, 4.02, 36, 8, 128, 2560),
        ("Qwen3-8B", 8.19, 8.19, 36, 8, 128, 4096),
        ("Qwen3-14B", 14.77, 14.77, 40, 8, 128, 5120),
        ("Qwen3-32B", 32.76, 32.76, 64, 8, 128, 5120),
        ("Qwen3-30B-A3B", 30.53, 3.3, 48, 4, 128, 2048),
        ("Qwen3-235B-A22B", 235.09, 22, 94, 4, 128, 4096),
        ("Qwen2.5-0.5B", 0.494, 0.494, 24, 2, 64, 896),
        ("Qwen2.5-1.5B", 1.54, 1.54, 28, 2, 128, 1536),
        ("Qwen2.5-3B", 3.09, 3.09, 36, 2, 128, 2048),
        ("Qwen2.5-7B", 7.62, 7.62, 28, 4, 128, 3584),
        ("Qwen2.5-14B", 14.77, 14.77, 48, 8, 128, 5120),
        ("Qwen2.5-32B", 32.76, 32.76, 64, 8, 128, 5120),
        ("Qwen2.5-72B", 72.71, 72.71, 80, 8, 128, 8192),
        ("Llama-3.2-1B", 1.24, 1.24, 16, 8, 64, 2048),
        ("Llama-3.2-3B", 3.21, 3.21, 28, 8, 128, 3072),
        ("Llama-3.1-8B", 8.03, 8.03, 32, 8, 128, 4096),
        ("Llama-3.1-70B", 70.55, 70.55, 80, 8, 128, 8192),
        ("Llama-3.3-70B", 70.55, 70.55, 80, 8, 128, 8192),
        ("gpt-oss-20b", 20.91, 3.6, 24, 8, 64, 2880),
        ("gpt-oss-120b", 116.83, 5.1, 36, 8, 64, 2880),
    )
}
"""Sizes of models, from their own config.json and cards on the Hugging Face Hub."""

_ACTIVE = re.compile(r"-A(\d+(?:\.\d+)?)B(?![A-Za-z0-9])", re.IGNORECASE)
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])", re.IGNORECASE)


def shape_of(model: str) -> ModelShape | None:
    """The size of a model by the table, or else by a size in its name, such as 235B-A22B; `None` if neither knows."""
    name = model.rpartition("/")[2]
    known = [each for each in KNOWN if re.match(rf"{re.escape(each)}(?![A-Za-z0-9.])", name, re.IGNORECASE)]
    if known:
        return KNOWN[max(known, key=len)]
    if found := _SIZE.search(name):
        count = int(found[1] or 1) * float(found[2]) * (1e9 if found[3] in "Bb" else 1e6)
        part = _ACTIVE.search(name)
        active = float(part[1]) * 1e9 if part else 0.0 if found[1] else count
        return ModelShape(count, by_name=True, active=active)
    return None


def gpu_memory(type_name: str | None) -> float | None:
    """GiB of a GPU by the platform's name of its type, such as H200_141GB; `None` if the name has none.

    Vendors' GB are taken as GiB: an H100 of 80 GB shows 79.6 GiB.
    """
    found = re.search(r"(\d+)\s*GB", type_name or "", re.IGNORECASE)
    return float(found[1]) if found else None


def training_bytes(parameters: float, *, lora: bool) -> float:
    """Bytes of weights, gradients and moments on all training GPUs together."""
    return parameters * (WEIGHT_BYTES if lora else WEIGHT_BYTES + GRADIENT_BYTES + MOMENT_BYTES)


@dataclass(frozen=True)
class SamplingMemory:
    """The memory of one GPU of a copy of the sampled model, in bytes."""

    weights: float
    room: float
    """What vLLM may use of the GPU, less the weights; negative if they do not fit."""
    sequence: float
    """The KV cache of one sequence of the full length; 0 if unknown."""

    @property
    def fits(self) -> bool:
        return self.room > 0 and self.room >= self.sequence

    @property
    def sequences(self) -> int | None:
        """Sequences of the full length that fit at a time; `None` if unknown."""
        return int(max(self.room, 0.0) // self.sequence) if self.sequence else None


def sampling_memory(shape: ModelShape, gib: float, tensor_parallel: int, length: int) -> SamplingMemory:
    """The memory of one of `tensor_parallel` GPUs that sample sequences of `length` tokens.

    Key-value heads are split over the GPUs, and repeated where there are more GPUs than heads.
    """
    weights = shape.parameters * SAMPLED_WEIGHT_BYTES / tensor_parallel
    split = min(tensor_parallel, shape.kv_heads) if shape.kv_heads else 1
    return SamplingMemory(weights, gib * GIB * UTILIZATION - weights, shape.kv_token_bytes * length / split)


def least_training_gpus(parameters: float, gib: float, *, lora: bool) -> int:
    """The fewest GPUs on which the state of the training is not tight."""
    return max(1, math.ceil(training_bytes(parameters, lora=lora) / (gib * GIB * TIGHT)))


def least_tensor_parallel(shape: ModelShape, gib: float, length: int) -> int:
    """The least power of two of GPUs over which the sampled model has to be split."""
    parallel = 1
    while not sampling_memory(shape, gib, parallel, length).fits and parallel < 1024:
        parallel *= 2
    return parallel
