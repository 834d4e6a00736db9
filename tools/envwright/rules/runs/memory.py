"""Rules of training runs: does the model fit its GPUs?

Only prime-rl, hosted or self-managed, is judged in full: its sharding and types are known from its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from envwright.rules.engine import Found, rule
from envwright.rules.runs.subject import RunSubject
from envwright.statistics.model_memory import (
    ASSUMED_GIB,
    GIB,
    LARGE_GIB,
    SAMPLED_WEIGHT_BYTES,
    ModelShape,
    gpu_memory,
    least_tensor_parallel,
    least_training_gpus,
    sampling_memory,
    shape_of,
    training_bytes,
)

TIGHT = 0.8
"""The share of a GPU's memory above which activations of the training are unlikely to fit beside its state."""
MEMORY_KEYS = frozenset({"fsdp_cpu_offload", "full_offload", "optimization_dtype", "dp_replicate"})
"""Settings of `trainer.model` of prime-rl that change what a GPU holds."""


@rule("RUN032", gate="run")
def model_does_not_fit_its_gpus(run: RunSubject) -> Iterator[Found]:
    """The model does not fit its GPUs.

    What: Training: 16 bytes of each parameter (LoRA: 4) are divided by the training GPUs. Sampling: 2 bytes of each
        parameter divided by tensor_parallel, and one sequence of seq_len in the KV cache, in 90 % of a GPU. More than
        a GPU has is an error; a training state above 80 %, or room for less than one group of sequences, a warning.
        The formulas are in envwright/statistics/model_memory.py, from prime-rl 559b447. `gpus.type` names the memory
        (H200_141GB). Without it 80 GiB are assumed, and what fits 141 GiB is a warning, not an error. A model of
        unknown size is advice. Activations are not counted. Of other trainers on declared GPUs only the weights are
        judged, 2 bytes of each parameter over the training GPUs: a warning, as they may be offloaded or quantized.
    Why: The run ends out of memory after its GPUs were reserved.
    Fix: Use the counts that the message proposes, name `gpus.type`, train an adapter (`lora`), or a smaller model.
    """
    if run.broken:
        return
    if not run.trainer.schemas:
        yield from _weights_alone(run)
        return
    model = run.settings.model or run.spec.model
    shape = shape_of(model)
    if shape is None:
        message = f"the size of {model} is unknown: its memory on the GPUs was not judged"
        fix = "Compare the size of its weights with the GPUs yourself; a name with its size, such as X-4B, is judged."
        found = run.found("model", message, fix, model=model)
        yield replace(found, severity="advice")
        return
    yield from _training(run, shape)
    yield from _sampling(run, shape)


def _weights_alone(run: RunSubject) -> Iterator[Found]:
    """The weights on the training GPUs. Tinker, which trains adapters only, is a service with GPUs of its own."""
    shape, gpus = shape_of(run.settings.model or run.spec.model), run.spec.gpus
    if shape is None or run.trainer.lora == "only":
        return
    count = (gpus.train_nodes or 1) * gpus.per_node if gpus.multi_node else gpus.train
    gib, named = _memory_of_gpu(run)
    needed = shape.parameters * SAMPLED_WEIGHT_BYTES / count / GIB
    if needed > max(gib, _best_case(run)):
        where = f"each of {count} training GPUs with {named}"
        message = f"{_named(run, shape)}: weights alone take {needed:.0f} GiB of {where}"
        fix = "Use more or larger GPUs (gpus.train, gpus.type) or a smaller model, or offload or quantize the weights."
        yield replace(run.found("gpus.train", message, fix, gpus=count, gib=round(needed, 1)), severity="warning")


def _memory_of_gpu(run: RunSubject) -> tuple[float, str]:
    """GiB of one GPU, and how messages name it."""
    known = gpu_memory(run.spec.gpus.type)
    if known is not None:
        return known, f"{known:g} GiB ({run.spec.gpus.type})"
    return ASSUMED_GIB, f"{ASSUMED_GIB:g} GiB (assumed: gpus.type names no memory)"


def _best_case(run: RunSubject) -> float:
    """GiB below which an undeclared GPU may still hold it; 0 for a declared one."""
    return LARGE_GIB if gpu_memory(run.spec.gpus.type) is None else 0.0


def _named(run: RunSubject, shape: ModelShape) -> str:
    by = ", by its name" if shape.by_name else ""
    return f"{run.settings.model or run.spec.model} ({shape.parameters / 1e9:.3g} billion parameters{by})"


def _training(run: RunSubject, shape: ModelShape) -> Iterator[Found]:
    settings, gpus = run.settings, run.spec.gpus
    trainer = run.spec.overrides.get("trainer")
    own = trainer.get("model") if isinstance(trainer, Mapping) else None
    if isinstance(own, Mapping) and MEMORY_KEYS & set(own):
        return
    count = (gpus.train_nodes or 1) * gpus.per_node if settings.multi_node else settings.train_gpus or 1
    gib, named = _memory_of_gpu(run)
    lora = settings.lora_rank is not None
    needed = training_bytes(shape.parameters, lora=lora) / max(count, 1) / GIB
    if count < 1 or needed <= TIGHT * gib:
        return
    least = least_training_gpus(shape.parameters, gib, lora=lora, filled=TIGHT)
    what = "weights (4 bytes of a parameter)" if lora else "weights, gradients and moments (16 bytes of a parameter)"
    message = f"{_named(run, shape)}: {what} take {needed:.0f} GiB of each of {count} training GPUs with {named}"
    nodes = -(-least // gpus.per_node)
    fix = f"Set gpus.train_nodes to {nodes}" if least > gpus.per_node else f"Set gpus.train to {least}"
    fix += f" ({least} GPUs), {'or ' if lora else 'add `lora`, '}name gpus.type with more memory."
    key = "gpus.train_nodes" if settings.multi_node else "gpus.train"
    found = run.found(key, message, fix, gpus=count, gib=round(needed, 1), least=least)
    yield found if needed > max(gib, _best_case(run)) else replace(found, severity="warning")


def _sampling(run: RunSubject, shape: ModelShape) -> Iterator[Found]:
    settings = run.settings
    if not settings.multi_node and (settings.inference_gpus or 0) < 1:
        return
    length = settings.max_model_len or settings.seq_len or run.spec.seq_len
    gib, named = _memory_of_gpu(run)
    parallel = max(settings.tensor_parallel, 1)
    memory = sampling_memory(shape, gib, parallel, length)
    least = least_tensor_parallel(shape, gib, length)
    evidence = {"gib": round((memory.weights + memory.sequence) / GIB, 1), "least": least}
    if not memory.fits:
        needed = f"{memory.weights / GIB:.0f} GiB for weights and {memory.sequence / GIB:.1f} GiB for one sequence"
        where = f"on each of {parallel} GPUs with {named}"
        message = f"{_named(run, shape)}: sampling needs {needed} of {length} tokens {where}"
        fix = f"Set gpus.tensor_parallel to {least} and gpus.inference to a multiple of it, or name gpus.type."
        found = run.found("gpus.tensor_parallel", message, fix, **evidence)
        at_best = sampling_memory(shape, max(gib, _best_case(run)), parallel, length)
        yield replace(found, severity="warning") if at_best.fits else found
        return
    group = max(settings.groups.values(), default=run.spec.group_size)
    copies = max((settings.inference_gpus or parallel) // parallel, 1)
    if not settings.multi_node and memory.sequences is not None and memory.sequences * copies < group:
        message = (
            f"{_named(run, shape)}: the KV cache of {copies * parallel} GPUs with {named} holds"
            f" {memory.sequences * copies} sequences of {length} tokens, fewer than a group of {group}"
        )
        fix = "Add GPUs for sampling (gpus.inference, gpus.tensor_parallel), or lower seq_len."
        yield replace(run.found("gpus.inference", message, fix, **evidence), severity="warning")
