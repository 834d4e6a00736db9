"""Models and chat renderers that trainers know by name: a misspelt one fails here and not on the cluster."""

from __future__ import annotations

from collections.abc import Mapping

RENDERERS: Mapping[str, tuple[str, ...]] = {
    "auto": (),
    "custom": (),
    "deepseek-r1": (),
    "deepseek-v3": (),
    "deepseek-v4": (
        "enable_thinking",
        "reasoning_effort",
    ),
    "default": (),
    "gemma4": ("enable_thinking",),
    "glm-4.5": ("enable_thinking",),
    "glm-5": (
        "clear_thinking",
        "enable_thinking",
    ),
    "glm-5.1": (
        "clear_thinking",
        "enable_thinking",
    ),
    "glm-5.3": (
        "clear_thinking",
        "reasoning_effort",
    ),
    "gpt-oss": ("reasoning_effort",),
    "hy3": ("reasoning_effort",),
    "inkling": ("reasoning_effort",),
    "kimi-k2": ("enable_thinking",),
    "kimi-k2.5": (),
    "laguna-m.1": ("enable_thinking",),
    "laguna-s-2.1": ("enable_thinking",),
    "laguna-xs-2.1": ("enable_thinking",),
    "laguna-xs.2": ("enable_thinking",),
    "llama-3": (),
    "minimax-m2": (),
    "nemotron-3": ("enable_thinking",),
    "nemotron-3-ultra": ("enable_thinking",),
    "nemotron-3.5": ("enable_thinking",),
    "prime-qwen3": (),
    "qwen3": ("enable_thinking",),
    "qwen3-vl": (),
    "qwen3.5": ("enable_thinking",),
    "qwen3.6": ("enable_thinking",),
    "qwen3.8": (
        "enable_thinking",
        "reasoning_effort",
    ),
}
"""Renderers of prime-rl and the thinking options that each takes (renderers 0.1.12, read from its config classes)."""

MODELS_OF_RENDERER: Mapping[str, tuple[str, ...]] = {
    "deepseek-r1": (
        "deepseek-ai/DeepSeek-R1",
        "deepseek-ai/DeepSeek-R1-0528",
    ),
    "deepseek-v3": (
        "deepseek-ai/DeepSeek-V3",
        "deepseek-ai/DeepSeek-V3-Base",
    ),
    "deepseek-v4": ("deepseek-ai/DeepSeek-V4-Flash-0731",),
    "gemma4": (
        "google/gemma-4-26B-A4B-it",
        "google/gemma-4-31B-it",
        "google/gemma-4-E2B-it",
        "google/gemma-4-E4B-it",
    ),
    "glm-4.5": (
        "THUDM/GLM-4.5-Air",
        "zai-org/GLM-4.5-Air",
    ),
    "glm-5": (
        "zai-org/GLM-4.7-Flash",
        "zai-org/GLM-5",
        "zai-org/GLM-5-FP8",
    ),
    "glm-5.1": ("zai-org/GLM-5.1",),
    "glm-5.3": (
        "zai-org/GLM-5.3",
        "zai-org/GLM-5.3-BF16",
    ),
    "gpt-oss": (
        "openai/gpt-oss-120b",
        "openai/gpt-oss-20b",
    ),
    "hy3": (
        "tencent/Hy3",
        "tencent/Hy3-FP8",
    ),
    "inkling": (
        "thinkingmachines/Inkling",
        "thinkingmachines/Inkling-Small",
    ),
    "kimi-k2": ("moonshotai/Kimi-K2-Instruct",),
    "kimi-k2.5": (
        "moonshotai/Kimi-K2.5",
        "moonshotai/Kimi-K2.6",
    ),
    "laguna-m.1": ("poolside/Laguna-M.1",),
    "laguna-s-2.1": ("poolside/Laguna-S-2.1",),
    "laguna-xs-2.1": ("poolside/Laguna-XS-2.1",),
    "laguna-xs.2": ("poolside/Laguna-XS.2",),
    "llama-3": (
        "meta-llama/Llama-3.2-1B-Instruct",
        "meta-llama/Llama-3.2-3B-Instruct",
    ),
    "minimax-m2": (
        "MiniMaxAI/MiniMax-M2",
        "MiniMaxAI/MiniMax-M2.5",
    ),
    "nemotron-3": (
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
    ),
    "nemotron-3-ultra": (
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8",
    ),
    "nemotron-3.5": (
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16",
        "nvidia/NVIDIA-Nemotron-3.5-Super-EA-09112026",
    ),
    "prime-qwen3": (
        "PrimeIntellect/Qwen3-0.6B",
        "PrimeIntellect/Qwen3-1.7B",
    ),
    "qwen3": (
        "Qwen/Qwen3-0.6B",
        "Qwen/Qwen3-1.7B",
        "Qwen/Qwen3-14B",
        "Qwen/Qwen3-235B-A22B",
        "Qwen/Qwen3-30B-A3B",
        "Qwen/Qwen3-30B-A3B-Instruct-2507",
        "Qwen/Qwen3-30B-A3B-Thinking-2507",
        "Qwen/Qwen3-32B",
        "Qwen/Qwen3-4B",
        "Qwen/Qwen3-4B-Instruct-2507",
        "Qwen/Qwen3-4B-Thinking-2507",
        "Qwen/Qwen3-8B",
    ),
    "qwen3-vl": (
        "Qwen/Qwen3-VL-30B-A3B-Instruct",
        "Qwen/Qwen3-VL-4B-Instruct",
        "Qwen/Qwen3-VL-8B-Instruct",
    ),
    "qwen3.5": (
        "Qwen/Qwen3.5-0.8B",
        "Qwen/Qwen3.5-122B-A10B",
        "Qwen/Qwen3.5-2B",
        "Qwen/Qwen3.5-35B-A3B",
        "Qwen/Qwen3.5-397B-A17B",
        "Qwen/Qwen3.5-4B",
        "Qwen/Qwen3.5-9B",
    ),
    "qwen3.6": ("Qwen/Qwen3.6-35B-A3B",),
    "qwen3.8": (
        "Qwen/Qwen3.8-27B",
        "Qwen/Qwen3.8-Flash-Next",
    ),
}
"""What `renderer = "auto"` resolves: the map of renderers 0.1.12, 67 models."""

RENDERER_OF_MODEL = {model: renderer for renderer, models in MODELS_OF_RENDERER.items() for model in models}

TINKER_RENDERERS: Mapping[str, str] = {
    "Qwen/Qwen3-235B-A22B-Instruct-2507": "qwen3_instruct",
    "Qwen/Qwen3-30B-A3B": "qwen3",
    "Qwen/Qwen3-30B-A3B-Base": "role_colon",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3_instruct",
    "Qwen/Qwen3-32B": "qwen3",
    "Qwen/Qwen3-4B-Instruct-2507": "qwen3_instruct",
    "Qwen/Qwen3-8B": "qwen3",
    "Qwen/Qwen3-8B-Base": "role_colon",
    "Qwen/Qwen3-VL-235B-A22B-Instruct": "qwen3_vl_instruct",
    "Qwen/Qwen3-VL-30B-A3B-Instruct": "qwen3_vl_instruct",
    "Qwen/Qwen3.5-27B": "qwen3_5",
    "Qwen/Qwen3.5-35B-A3B": "qwen3_5",
    "Qwen/Qwen3.5-35B-A3B-Base": "role_colon",
    "Qwen/Qwen3.5-397B-A17B": "qwen3_5",
    "Qwen/Qwen3.5-4B": "qwen3_5",
    "Qwen/Qwen3.5-9B": "qwen3_5",
    "Qwen/Qwen3.5-9B-Base": "role_colon",
    "Qwen/Qwen3.6-27B": "qwen3_5",
    "Qwen/Qwen3.6-35B-A3B": "qwen3_5",
    "Qwen/Qwen3.8-27B": "qwen3_8_xhigh_reasoning",
    "deepseek-ai/DeepSeek-V3.1": "deepseekv3",
    "deepseek-ai/DeepSeek-V3.1-Base": "role_colon",
    "deepseek-ai/DeepSeek-V4.1-Flash": "deepseekv4_1",
    "deepseek-ai/DeepSeek-V4.1-Flash-1017": "deepseekv4_1",
    "meta-llama/Llama-3.1-70B": "role_colon",
    "meta-llama/Llama-3.1-8B": "role_colon",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3",
    "meta-llama/Llama-3.2-1B": "role_colon",
    "meta-llama/Llama-3.2-3B": "role_colon",
    "meta-llama/Llama-3.3-70B-Instruct": "llama3",
    "moonshotai/Kimi-K2-Thinking": "kimi_k2",
    "moonshotai/Kimi-K2.5": "kimi_k25",
    "moonshotai/Kimi-K2.6": "kimi_k26",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "nemotron3",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": "nemotron3",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": "nemotron3_ultra",
    "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16": "nemotron3_ultra",
    "nvidia/NVIDIA-Nemotron-3.5-Super-VL-120B-A12B-BF16": "nemotron3_ultra",
    "openai/gpt-oss-120b": "gpt_oss_no_sysprompt",
    "openai/gpt-oss-20b": "gpt_oss_no_sysprompt",
    "thinkingmachines/Inkling": "tml_v0",
    "thinkingmachines/Inkling-Small": "tml_v0",
    "zai-org/GLM-5.3": "glm5_3_max_reasoning",
    "zai-org/GLM-5.3-Flash": "glm5_3_max_reasoning",
}
"""Models of Tinker and their recommended renderer (tinker-cookbook 0.5.8, model_info); others are refused there."""

_DROPS_THINKING = ("Qwen/Qwen3-", "Qwen/QwQ", "deepseek-ai/DeepSeek-R1")
"""Models whose chat template removes earlier `<think>` sections from the conversation.

Source: the chat templates of Qwen3 and DeepSeek-R1; tinker-cookbook's recipe verifiers_rl warns of the same.
"""


def known_models() -> tuple[str, ...]:
    """Every model that some trainer knows by name."""
    return tuple(sorted({*RENDERER_OF_MODEL, *TINKER_RENDERERS}))


def drops_thinking(model: str) -> bool:
    """Whether the model's template drops what was thought in earlier turns; base and VL models are passed over."""
    return model.startswith(_DROPS_THINKING) and not model.endswith(("-Base",)) and "-VL-" not in model
