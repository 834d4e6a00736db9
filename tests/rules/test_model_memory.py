"""The memory of models against published figures."""

from __future__ import annotations

import pytest
from envwright.rules.engine import findings
from envwright.statistics.model_memory import (
    GIB,
    KNOWN,
    gpu_memory,
    least_tensor_parallel,
    least_training_gpus,
    sampling_memory,
    shape_of,
    training_bytes,
)
from run_subjects import run


def test_training_state_equals_the_figures_of_zero() -> None:
    """Rajbhandari et al., ZeRO (arXiv 1910.02054), figure 1: 7.5 billion parameters with Adam, 120 GB on one GPU and
    1.9 GB on each of 64 that share everything.
    """
    state = training_bytes(7.5e9, lora=False)
    assert state / 1e9 == 120
    assert round(state / 64 / 1e9, 1) == 1.9


@pytest.mark.parametrize(
    ("model", "weights", "cache"),
    [("Llama-3.1-8B", 16, 15.62), ("Llama-3.1-70B", 140, 39.06)],
)
def test_sampling_memory_equals_the_figures_of_llama(model: str, weights: float, cache: float) -> None:
    """Hugging Face, "Llama 3.1 - 405B, 70B & 8B with multilinguality and long context": GB of 16-bit weights, and of
    the cache of 128,000 tokens.
    """
    memory = sampling_memory(KNOWN[model], 80, 1, 128_000)
    assert memory.weights / 1e9 == pytest.approx(weights, rel=0.01)
    assert memory.sequence / GIB == pytest.approx(cache, abs=0.01)


def test_cache_of_a_token_equals_the_figure_of_vllm() -> None:
    """Kwon et al., PagedAttention (arXiv 2309.06180): 800 KB for a token of OPT-13B, 40 layers of width 5120."""
    shape = shape_of("opt-13B")
    assert shape is not None
    assert shape.by_name
    full = type(shape)(shape.parameters, layers=40, kv_heads=40, head_dim=128)
    assert full.kv_token_bytes / 1024 == 800


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", 4.02),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", 235.09),
        ("Qwen/Qwen3-VL-4B-Instruct", 4),
        ("acme/our-1.5B", 1.5),
        ("mistralai/Mixtral-8x7B", 56),
        ("HuggingFaceTB/SmolLM2-135M", 0.135),
        ("acme/big-120B-A12B:final", 120),
        ("deepseek-ai/DeepSeek-R1", None),
        ("acme/our-own", None),
    ],
)
def test_model_size_is_known_by_table_or_name(model: str, billions: float | None) -> None:
    shape = shape_of(model)
    assert (shape and shape.parameters / 1e9) == (billions and pytest.approx(billions))


def test_gpu_memory_is_read_from_the_platforms_name() -> None:
    assert [gpu_memory(name) for name in ("H200_141GB", "RTX_3090", None)] == [141, None, None]


def test_proposed_counts_fit_and_one_fewer_does_not() -> None:
    shape = KNOWN["Qwen3-235B-A22B"]
    least = least_training_gpus(shape.parameters, 80, lora=False)
    state = training_bytes(shape.parameters, lora=False)
    assert state / least <= 0.8 * 80 * GIB < state / (least - 1)
    parallel = least_tensor_parallel(shape, 80, 4096)
    assert sampling_memory(shape, 80, parallel, 4096).fits
    assert not sampling_memory(shape, 80, parallel // 2, 4096).fits


def test_finding_on_memory_weighs_by_what_cannot_fit() -> None:
    def weights(**declared: object) -> list[tuple[str, str]]:
        found = [each for each in findings(run(**declared)) if each.rule == "RUN032"]  # type: ignore[arg-type]
        return [(each.severity, each.evidence.details["key"]) for each in found]

    large = weights(model="Qwen/Qwen3-235B-A22B", without=("lora",))
    assert large == [("error", "gpus.train"), ("error", "gpus.tensor_parallel")]
    tight = weights(model="Qwen/Qwen3-4B", without=("lora",), gpus={"train": 1, "inference": 1, "type": "A_72GB"})
    assert tight == [("warning", "gpus.train")]
    assert weights(model="acme/our-own", renderer="qwen3") == [("advice", "model")]
