"""Keys of prime-rl's configuration that moved, went, or pass through unchecked.

August is commit 559b447 (2026-08-21), measured with its own schema package; the later
schema (autumn 2026) was read from a public copy without a commit.
"""

from __future__ import annotations

from collections.abc import Mapping

MOVED: Mapping[str, str] = {
    "orchestrator.group_size": "orchestrator.train.group_size",
    "orchestrator.algo": "orchestrator.train.algo",
    "orchestrator.eval.num_examples": "orchestrator.eval.select.limit",
    "source.curriculum.sampler": "source.sampler",
    "source.curriculum.gates": "source.min_abs_advantage",
    "orchestrator.train.filter_zero_advantages": "orchestrator.constant_trainer_batch_size",
}
"""August's spelling → the later one; `source.` is every training source."""

REMOVED: Mapping[str, str] = {
    "orchestrator.oversampling_factor": "orchestrator.concurrency.initial_inflight and max_inflight",
    "orchestrator.max_inflight_rollouts": "orchestrator.concurrency.max_inflight",
    "orchestrator.max_async_level": "orchestrator.max_off_policy_steps",
    "orchestrator.rollouts_per_example": "group_size of each source",
    "orchestrator.buffer": "difficulty_filter of the run, or a sampler of each source",
    "orchestrator.trajectory_strategy": "nothing: there is one strategy",
    "orchestrator.env": "orchestrator.train.source",
    "orchestrator.train.env": "orchestrator.train.source",
    "orchestrator.sampling": "orchestrator.train.sampling",
    "orchestrator.val": "orchestrator.eval",
    "orchestrator.train.sampling.max_tokens": "orchestrator.train.sampling.max_completion_tokens",
    "wandb": "monitors.wandb",
    "checkpoints": "ckpt",
    "val": "orchestrator.eval",
    "env": "orchestrator.train.source",
    "model.lora": "trainer.model.lora",
    "inference.model": "inference.vllm",
    "inference.parallel": "inference.vllm",
}
"""Gone from both schemas → what took its place."""

VLLM_ARGUMENTS = [
    "model",
    "dtype",
    "max_model_len",
    "enforce_eager",
    "trust_remote_code",
    "chat_template",
    "tool_call_parser",
    "reasoning_parser",
    "rope_scaling",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "data_parallel_size_local",
    "data_parallel_rpc_port",
    "api_server_count",
    "seed",
    "gpu_memory_utilization",
    "enable_prefix_caching",
    "quantization",
    "enable_lora",
    "max_loras",
    "max_cpu_loras",
    "max_lora_rank",
    "lora_target_modules",
    "enable_expert_parallel",
    "all2all_backend",
    "enable_eplb",
    "enable_dbo",
    "enable_return_routed_experts",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_chunked_prefill",
    "swap_space",
    "kv_cache_dtype",
    "block_size",
    "tokenizer",
    "tokenizer_mode",
    "revision",
    "load_format",
    "download_dir",
    "limit_mm_per_prompt",
    "speculative_config",
    "compilation_config",
    "max_logprobs",
    "disable_log_requests",
    "disable_log_stats",
    "served_model_name",
    "hf_overrides",
    "cpu_offload_gb",
    "scheduling_policy",
    "async_scheduling",
    "disable_custom_all_reduce",
    "enable_sleep_mode",
    "override_generation_config",
    "generation_config",
    "max_seq_len_to_capture",
    "num_gpu_blocks_override",
]
"""Arguments of vLLM's server: those that prime-rl types, and others of vLLM's documentation."""
