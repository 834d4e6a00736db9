"""Generated runs: random combinations of all settings of the spec."""

from __future__ import annotations

import random
from typing import Any

ENVIRONMENTS = ("reverse-text", "word-problems", "gsm8k", "alphabet-sort", "ledger-lookup")
MODELS = ("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-8B", "Qwen/Qwen3.5-4B", "openai/gpt-oss-20b", "acme/our-own")


def generated_run(seed: int, *, sound: bool = False) -> dict[str, Any]:
    """A declaration that the registry's schema takes; the rules of runs may find something in it.

    `sound` draws only what no rule that counts should find fault with.
    """
    draw = random.Random(seed)
    group = draw.choice([8, 16] if sound else [1, 2, 4, 8, 12, 16])
    declared: dict[str, Any] = {
        "backend": draw.choice(["prime", "prime-rl"]),
        "schema": draw.choice(["portable", "august"]),
        "model": draw.choice(MODELS[:-2] if sound else MODELS),  # 20 billion parameters do not fit one GPU
        "environments": _sources(draw, group, sound=sound),
        "max_steps": draw.choice([1, 20, 200, 1000]),
        "batch_size": group * draw.choice([1, 4, 8, 32]),
        "group_size": group,
    }
    if draw.random() < 0.25:
        _several_agents(draw, declared)
    optional = _optional(draw, declared, sound=sound)
    declared |= {key: value for key, value in optional.items() if draw.random() < 0.5}
    if not sound and draw.random() < 0.3:
        declared["overrides"] = _override(draw)
    return declared


def _sources(draw: random.Random, group: int, *, sound: bool) -> list[dict[str, Any]]:
    chosen = draw.sample(ENVIRONMENTS, draw.randint(1, 3))
    sources = []
    for name in chosen:
        source: dict[str, Any] = {"id": name}
        if draw.random() < 0.5:
            source["ratio"] = draw.choice([0.25, 1, 3.0])
        if draw.random() < 0.3:
            source["group_size"] = group if sound else draw.choice([2, 3, group])
        if draw.random() < 0.2:
            source["max_turns"] = draw.choice([1, 4])
        if draw.random() < 0.2:
            source["harness"] = {"id": "null"}
        if name == "gsm8k" and draw.random() < 0.5:
            source["taskset"] = {"source": "sample"}
        sources.append(source)
    if draw.random() < 0.2:
        sources.append({"id": chosen[0], "name": "again"} if sound else {"id": chosen[0]})
    return sources


def _several_agents(draw: random.Random, declared: dict[str, Any]) -> None:
    """An environment of two agents beside the others, or alone with an advantage for each agent."""
    own: dict[str, Any] = {"harness": {"id": "bash"}, "runtime": {"type": "docker"}, "max_turns": 3}
    agents = {"ben": {key: value for key, value in own.items() if draw.random() < 0.5}}
    source = {"id": "meeting-time", **draw.choice([{}, {"max_turns": 6}, {"agents": agents}])}
    if draw.random() < 0.5:
        declared |= {"environments": [source], "algorithm": "rae"}
        declared |= draw.choice([{}, {"algorithm_settings": {"decay": draw.choice([0, 0.5, 0.99])}}])
    else:
        declared["environments"].append(source)


def _optional(draw: random.Random, declared: dict[str, Any], *, sound: bool) -> dict[str, Any]:
    limit = draw.choice([256, 512, 1024])
    gpus = draw.choice(
        [
            {"train": 2, "inference": 6},
            {"train": 4, "inference": 4, "tensor_parallel": 2, "context_parallel": 2},
            {"train": 1, "inference": 1},
            {"train_nodes": 2, "inference_nodes": 1, "tensor_parallel": 4},
            {"train": 8, "inference": 8, "per_node": 16},
            *([] if sound else [{"train": 4, "inference": 6}, {"train": 1, "inference": 3, "tensor_parallel": 2}]),
        ]
    )
    interval = declared["max_steps"] if sound else draw.choice([1, 10, 100])
    held_out = {"environments": [{"id": "word-problems"}]} if sound else {}
    optional = {
        "learning_rate": draw.choice([1e-6, 1e-5, 1]),
        "weight_decay": draw.choice([0, 0.01]),
        "algorithm": draw.choice(["grpo", "max_rl"]),
        "seq_len": draw.choice([2048, 4096, 32768]),
        "max_concurrent": draw.choice([32, 256] if sound else [2, 32, 256]),
        "max_off_policy_steps": draw.choice([1, 8, 32]),
        "difficulty_filter": draw.choice([True, False]),
        "sampling": {"max_tokens": limit, "temperature": draw.choice([0.7, 1, 1.0])},
        "lora": draw.choice([{}, {"rank": 8}, {"rank": 64, "alpha": 16}, {"rank": 512 if sound else 640}]),
        "eval": {"interval": min(interval, declared["max_steps"]), "tasks": 10, "rollouts": 2, "skip_first": True}
        | held_out,
        "checkpoints": draw.choice([{}, {"interval": 1}, {"keep": 2}]),
        "volume": draw.choice([{"name": "kept"}, {"name": "kept", "size": "500Gi"}]),
        "resume": draw.choice([{"step": 5}, {"folder": "outputs/x/checkpoints/step_50"}]),
        "wandb": {"project": "p", "tags": ["a", "b"]},
        "secrets": ["WANDB_API_KEY"],
        "gpus": gpus,
        "slurm": {"job_name": "x", "partition": "gpu"},
    }
    optional.pop("slurm" if declared["backend"] == "prime" else "volume")
    if "algorithm" in declared:
        optional.pop("algorithm")
    if not sound:
        optional["renderer"] = draw.choice(["qwen3", "default", "qwen33"])
    return optional


def _override(draw: random.Random) -> dict[str, Any]:
    return draw.choice(
        [
            {"orchestrator": {"group_size": 8}},
            {"orchestrator": {"train": {"group_size": 8}}},
            {"orchestrator": {"batch_size": 100}},
            {"orchestrator": {"oversampling_factor": 2.0}},
            {"weight_broadcast": {"type": "nccl"}},
            {"ckpt": None},
            {"trainer": {"model": {"cp": 2}}},
            {"deployment": {"num_train_gpus": 0}},
            {"inference": {"vllm": {"max_model_len": 1024, "max_num_seqs": 64}}},
            {"inference": {"vllm": {"gpu_memory_utilisation": 0.8}}},
            {"trainer": {"scheduler": {"type": "cosine", "warmup_steps": draw.choice([1, 5, 50])}}},
            {"trainer": {"scheduler": {"type": "linear"}}},
            {"trainer": {"max_steps": 20}},
            {"orchestrator": {"concurrency": {"initial_inflight": draw.choice([4, 64, 512])}}},
            {"orchestrator": {"token_batch_size": 10000}},
            {"orchestrator": {"eval": {"interval": 1}}},
            {"monitors": {"wandb": {"offline": True}}},
            {"env_vars": {"CUDA_VISIBLE_DEVICES": "0"}},
            {"trainer": {"loss": {"type": "ipo"}}},
            {"monitors": {"wandb": {"name": "x"}}},
            {"model": {"lora": {"rank": 8}}},
            {"env_vars": {"TOKENIZERS_PARALLELISM": "false"}},
        ]
    )
