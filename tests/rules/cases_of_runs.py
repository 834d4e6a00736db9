"""Cases of the rules of declared training runs."""

from __future__ import annotations

from dataclasses import replace

from envwright.rules.runs.subject import Recorded
from rule_cases import RuleCases
from run_subjects import V0, V1, overridden, run, source

BINARY = Recorded("qwen3-4b", False, ((0.0, 1.0, 1.0, 0.0),) * 8, 0.5)
DEAD = Recorded("qwen3-4b", False, ((0.0,) * 8,) * 7 + ((0.0,) * 7 + (1.0,),), 0.02)
FINE = Recorded("qwen3-4b", False, tuple(tuple((t * 8 + r) / 64 for r in range(8)) for t in range(8)), 0.5)
SCRIPTED = replace(DEAD, speaker="blend", scripted=True)
ON_HUB = replace(V1, external=True, requires=None, pinned=None)
SEVERAL = replace(V1, agents=("ana", "ben"))
PROPOSER = replace(V1, agents=("proposer", "solver"), requires=("verifiers>=0.4,<0.5", "proposer-solver"))
HIERARCHICAL = {"algorithm": "hierarchical_grpo", "algorithm_settings": {"episode_agents": ["solver"]}}
TINKER = {"backend": "tinker", "model": "Qwen/Qwen3-8B"}

CASES = {
    "RUN001": RuleCases(
        fires={
            "v0 with prime-rl": run(V0),
            "a newer verifiers with rllm": run(replace(V0, requires=("verifiers>=0.3.1,<0.4",)), backend="rllm-verl"),
            "several agents with trl": run(replace(V1, agents=("ana", "ben")), backend="trl"),
        },
        silent={
            "any generation with trl": run(V0, backend="trl"),
            "several agents with prime-rl": run(replace(V1, agents=("ana", "ben"))),
            "nothing is known": run(replace(ON_HUB, generation=None), backend="prime"),
        },
    ),
    "RUN003": RuleCases(
        fires={
            "misspelt": run(model="Qwen/Qwen3-4B-Instruct-2508"),
            "a renderer that is none": run(renderer="qwen33"),
            "not with tinker": run(V0, backend="tinker", model="Qwen/Qwen3-0.6B"),
        },
        silent={
            "known": run(),
            "a fine-tune with its renderer": run(model="acme/our-own", renderer="qwen3"),
        },
    ),
    "RUN060": RuleCases(
        fires={
            "a small batch": run(multi_turn=True, group_size=16),
            "small groups": run(multi_turn=True, batch_size=512),
        },
        silent={
            "one turn": run(),
            "as the guide has it": run(multi_turn=True, batch_size=512, group_size=16),
        },
    ),
    "RUN061": RuleCases(
        fires={
            "few steps for conversations": run(multi_turn=True, max_off_policy_steps=2),
            "more than any example": run(max_off_policy_steps=64),
        },
        silent={
            "not set": run(multi_turn=True),
            "as in the examples": run(multi_turn=True, max_off_policy_steps=16),
            "few steps for single replies": run(max_off_policy_steps=1),
        },
    ),
    "RUN062": RuleCases(
        fires={"ten turns": run(multi_turn=True, sources=[{"id": "plain-sums", "max_turns": 10}])},
        silent={
            "two turns": run(multi_turn=True, sources=[{"id": "plain-sums", "max_turns": 2}]),
            "no limit is declared": run(multi_turn=True),
        },
    ),
    "RUN063": RuleCases(
        fires={"as many as the batch": run(difficulty_filter=True, max_concurrent=128)},
        silent={
            "twice the batch": run(difficulty_filter=True, max_concurrent=256),
            "no filter": run(max_concurrent=128),
            "the trainer's own": run(difficulty_filter=True),
        },
    ),
    "RUN004": RuleCases(
        fires={"one letter": run(backend="trl", model="Qwen/Qwen3-06B")},
        silent={
            "known": run(backend="trl", model="Qwen/Qwen3-0.6B"),
            "another family": run(backend="trl", model="HuggingFaceTB/SmolLM2-135M"),
        },
    ),
    "RUN005": RuleCases(
        fires={
            "later's in august": overridden("orchestrator.train.group_size", 8),
            "a trainer with one schema": run(backend="trl", schema="august"),
        },
        silent={
            "august's in august": overridden("orchestrator.group_size", 8),
            "another trainer": overridden("group_size", 8, backend="tinker", model="Qwen/Qwen3-8B"),
        },
    ),
    "RUN006": RuleCases(
        fires={"two environments with trl": run(backend="trl", sources=[{"id": "plain-sums"}, {"id": "other-sums"}])},
        silent={"two with prime-rl": run(sources=[{"id": "plain-sums"}, {"id": "other-sums"}])},
    ),
    "RUN007": RuleCases(
        fires={
            "another release": run(replace(V0, requires=("verifiers>=0.1.8,<0.4",), pinned="0.3.1"), **TINKER),
            "a release, and the trainer runs a commit": run(replace(V1, pinned="0.4.0")),
        },
        silent={
            "the trainer's": run(V0, **TINKER),
            "not here": run(ON_HUB),
            "the trainer's commit": run(replace(V1, pinned="0.3.1.dev62+ga60a606ec")),
        },
    ),
    "RUN008": RuleCases(
        fires={
            "no such algorithm": run(algorithm="rloo"),
            "a parameter of another algorithm": run(
                SEVERAL, algorithm="rae", algorithm_settings={"episode_agents": ["a"]}
            ),
            "adapters only": run(V0, without=("lora",), **TINKER),
        },
        silent={"full": run(without=("lora",))},
    ),
    "RUN009": RuleCases(
        fires={"self-managed": run(submit="on-release")},
        silent={"hosted": run(backend="prime", submit="on-release"), "by hand": run(submit="manual")},
    ),
    "RUN010": RuleCases(
        fires={"clean": overridden("clean", True, backend="prime")},
        silent={"self-managed": overridden("clean", True)},
    ),
    "RUN011": RuleCases(
        fires={"of the hub": run(replace(ON_HUB, generation=None), backend="prime")},
        silent={"said": run(ON_HUB, backend="prime"), "either": run(replace(ON_HUB, generation=None), backend="trl")},
    ),
    "RUN012": RuleCases(
        fires={"twice": run(sources=[{"id": "plain-sums"}, {"id": "plain-sums"}])},
        silent={"named": run(sources=[{"id": "plain-sums", "name": "easy"}, {"id": "plain-sums", "name": "hard"}])},
    ),
    "RUN013": RuleCases(
        fires={"text for a number": overridden("max_steps", "200")},
        silent={"a number": overridden("max_steps", 100)},
    ),
    "RUN014": RuleCases(
        fires={"a folder of no checkpoint": run(resume={"folder": "outputs/x/final"})},
        silent={"none": run()},
    ),
    "RUN015": RuleCases(
        fires={"of the Hub": run(replace(ON_HUB, agents=None))},
        silent={
            "read from the source": run(SEVERAL),
            "v0": run(replace(ON_HUB, agents=None, generation="v0")),
        },
    ),
    "RUN016": RuleCases(
        fires={
            "another environment": run(SEVERAL, **HIERARCHICAL),
            "no agents are named": run(PROPOSER, algorithm="hierarchical_grpo"),
            "an agent that it has not": run(
                PROPOSER, algorithm="hierarchical_grpo", algorithm_settings={"episode_agents": ["judge"]}
            ),
        },
        silent={"proposer and solver": run(PROPOSER, **HIERARCHICAL), "rae": run(SEVERAL, algorithm="rae")},
    ),
    "RUN017": RuleCases(
        fires={"one agent": run(algorithm="rae")},
        silent={"two": run(SEVERAL, algorithm="rae"), "grpo": run()},
    ),
    "RUN018": RuleCases(
        fires={
            "a key of the taskset": run(sources=[{"id": "plain-sums", "taskset": {"spilt": "train"}}]),
            "a value of a Literal": run(sources=[{"id": "plain-sums", "taskset": {"split": "tset"}}]),
            "a value of a number": run(sources=[{"id": "plain-sums", "taskset": {"size": "many"}}]),
            "less than one": run(sources=[{"id": "plain-sums", "taskset": {"size": 0}}]),
            "half a number": run(sources=[{"id": "plain-sums", "taskset": {"size": 2.5}}]),
            "unknown keys": run(replace(ON_HUB, settings=None), sources=[{"id": "plain-sums", "taskset": {"x": 1}}]),
        },
        silent={
            "as pydantic reads it": run(
                sources=[{"id": "plain-sums", "taskset": {"size": "3", "share": "0.5", "hard": "yes"}}]
            ),
            "nothing": run(sources=[{"id": "plain-sums", "taskset": {"size": None}}]),
            "none": run(replace(ON_HUB, settings=None, held_out=None), without=("eval",)),
        },
    ),
    "RUN020": RuleCases(
        fires={"of one environment": run(sources=[{"id": "plain-sums", "group_size": 12}])},
        silent={"whole": run()},
    ),
    "RUN021": RuleCases(
        fires={"declared": run(group_size=1)},
        silent={
            "eight": run(),
            "not relative": run(V0, backend="rllm-verl", algorithm="reinforce", group_size=1),
        },
    ),
    "RUN022": RuleCases(
        fires={
            "less than a group": run(max_concurrent=4),
            "less than the workers": run(
                max_concurrent=16, overrides=source(serve={"pool": {"type": "static", "num_workers": 32}})
            ),
        },
        silent={
            "enough": run(max_concurrent=64),
            "not said": run(),
        },
    ),
    "RUN023": RuleCases(
        fires={"as long": run(seq_len=1024)},
        silent={"room": run(sampling={"max_tokens": 512}, seq_len=1024)},
    ),
    "RUN024": RuleCases(
        fires={"shorter": overridden("inference.vllm.max_model_len", 2048)},
        silent={"as long": overridden("inference.vllm.max_model_len", 4096), "the model's": run()},
    ),
    "RUN025": RuleCases(
        fires={"after the end": run(eval={"interval": 500})},
        silent={
            "within": run(),
            "none": run(without=("eval",)),
        },
    ),
    "RUN026": RuleCases(
        fires={
            "too many": run(gpus={"train": 4, "inference": 6}),
            "none": overridden("deployment.num_train_gpus", 0),
            "less than none": overridden("deployment.num_infer_gpus", -1),
            "context parallel": run(gpus={"train": 3, "context_parallel": 2}),
            "tensor parallel over nodes": run(gpus={"train_nodes": 1, "inference_nodes": 1, "tensor_parallel": 3}),
            "tensor parallel with rllm": run(V0, backend="rllm-verl", gpus={"train": 3, "tensor_parallel": 2}),
        },
        silent={
            "one node": run(gpus={"train": 2, "inference": 6, "tensor_parallel": 2, "context_parallel": 2}),
            "several nodes": run(gpus={"train_nodes": 2, "inference_nodes": 1}),
        },
    ),
    "RUN027": RuleCases(
        fires={
            "of the trainer alone": overridden("trainer.weight_broadcast.type", "nccl"),
            "nixl": overridden("weight_broadcast.type", "nixl"),
        },
        silent={
            "full": overridden("weight_broadcast.type", "nccl", without=("lora",), learning_rate=1e-6),
            "files": overridden("weight_broadcast.type", "filesystem"),
        },
    ),
    "RUN028": RuleCases(
        fires={"too large": run(lora={"rank": 640})},
        silent={"largest": run(lora={"rank": 512}), "with trl": run(backend="trl", lora={"rank": 640})},
    ),
    "RUN029": RuleCases(
        fires={"greedy": run(sampling={"temperature": 0})},
        silent={"sampled": run(sampling={"temperature": 0.7})},
    ),
    "RUN030": RuleCases(
        fires={"size of an evaluation": run(schema="portable", eval={"tasks": 50})},
        silent={"a default": run(V0, lora={"rank": 16}, without=("eval",), **TINKER)},
    ),
    "RUN031": RuleCases(
        fires={"no split is known": run(replace(V1, held_out=None))},
        silent={"a split": run()},
    ),
    "RUN032": RuleCases(
        fires={
            "a very large model on two GPUs": run(model="Qwen/Qwen3-235B-A22B", without=("lora",)),
            "a tight full state": run(
                model="Qwen/Qwen3-4B", without=("lora",), gpus={"train": 1, "inference": 1, "type": "A40_72GB"}
            ),
            "sampling alone": run(model="Qwen/Qwen3-32B", gpus={"train": 4, "inference": 1, "type": "A100_40GB"}),
            "less than a group in the cache": run(
                model="Qwen/Qwen3-32B", seq_len=32768, gpus={"train": 4, "inference": 1}
            ),
            "a size by its name": run(model="acme/our-235B", renderer="qwen3"),
            "an unknown size": run(model="acme/our-own", renderer="qwen3"),
            "weights alone with another trainer": run(V0, backend="trl", model="Qwen/Qwen3-235B-A22B"),
        },
        silent={
            "nodes": run(model="Qwen/Qwen3-30B-A3B", without=("lora",), gpus={"train_nodes": 2, "inference_nodes": 1}),
            "offloaded": run(
                model="Qwen/Qwen3-8B", without=("lora",), overrides={"trainer": {"model": {"full_offload": True}}}
            ),
            "weights that fit with another trainer": run(V0, backend="trl", model="Qwen/Qwen3-32B"),
            "a service": run(V0, backend="tinker", model="Qwen/Qwen3-235B-A22B-Instruct-2507"),
        },
    ),
    "RUN034": RuleCases(
        fires={"removed by an override": overridden("ckpt", None)},
        silent={"as compiled": run()},
    ),
    "RUN035": RuleCases(
        fires={
            "hosted without a volume": run(backend="prime"),
            "by nccl": overridden("weight_broadcast.type", "nccl", without=("lora",)),
        },
        silent={"self-managed": run(without=("lora",))},
    ),
    "RUN040": RuleCases(
        fires={"adapter too fast": run(learning_rate=1e-3)},
        silent={
            "full": run(learning_rate=1e-6, without=("lora",)),
            "the edge": run(learning_rate=1e-4),
        },
    ),
    "RUN041": RuleCases(
        fires={"batch": run(batch_size=32), "group": run(group_size=4)},
        silent={"usual": run(), "one is worse than small": run(group_size=1, sources=[{"id": "plain-sums"}])},
    ),
    "RUN042": RuleCases(
        fires={"binary": run(recorded=BINARY)},
        silent={
            "continuous": run(recorded=FINE),
            "by an override": run(
                recorded=BINARY, overrides=source(curriculum={"gates": {"x": {"type": "advantage_range"}}})
            ),
            "the trainer cannot": run(V0, recorded=BINARY, **TINKER),
            "nothing recorded": run(recorded=None),
        },
    ),
    "RUN043": RuleCases(
        fires={
            "a filter that never fires": run(recorded=FINE, difficulty_filter=True),
            "pools of right and wrong": run(
                recorded=FINE,
                overrides=source(
                    curriculum={
                        "sampler": {
                            "type": "difficulty_pool",
                            "pools": {
                                "bad": {"threshold": 0.0, "weight": 1.0},
                                "good": {"threshold": 1.0, "weight": 0.5},
                            },
                        }
                    }
                ),
            ),
        },
        silent={
            "binary": run(recorded=BINARY, difficulty_filter=True),
            "pools within": run(
                recorded=FINE,
                overrides=source(curriculum={"sampler": {"pools": {"bad": {"threshold": 0.4, "weight": 1.0}}}}),
            ),
        },
    ),
    "RUN044": RuleCases(
        fires={"dead": run(recorded=DEAD)},
        silent={
            "live": run(recorded=BINARY),
            "scripted": run(recorded=SCRIPTED),
            "nothing recorded": run(recorded=None),
        },
    ),
    "RUN045": RuleCases(
        fires={
            "nothing": run(recorded=replace(DEAD, mean_share=0.0)),
            "all": run(recorded=replace(BINARY, mean_share=0.9)),
        },
        silent={"between": run(), "scripted": run(recorded=replace(SCRIPTED, mean_share=0.0))},
    ),
    "RUN046": RuleCases(
        fires={
            "several turns": run(V0, multi_turn=True, **TINKER),
            "deepseek": run(V0, multi_turn=True, **{**TINKER, "model": "deepseek-ai/DeepSeek-R1"}),
        },
        silent={
            "one turn": run(V0, **TINKER),
            "another template": run(V0, multi_turn=True, **{**TINKER, "model": "meta-llama/Llama-3.2-3B"}),
            "no thinking": run(V0, multi_turn=True, sampling={"enable_thinking": False}, **TINKER),
            "a trainer that renders nothing again": run(multi_turn=True),
        },
    ),
    "RUN047": RuleCases(
        fires={
            "a judge's key": run(replace(V1, secrets=("OPENAI_API_KEY",)), backend="prime"),
            "the declared judge's": run(replace(V1, judge="OPENAI_API_KEY"), backend="prime"),
            "the run's": run(backend="prime", secrets=["SERPER_API_KEY"]),
        },
        silent={
            "forwarded": run(backend="prime", secrets=["WANDB_API_KEY", "HF_TOKEN"]),
            "one's own machine": run(replace(V1, secrets=("OPENAI_API_KEY",))),
            "a judge with the key that the service provides": run(replace(V1, judge="PRIME_API_KEY"), backend="prime"),
        },
    ),
    "RUN048": RuleCases(
        fires={"older": run(backend="prime", on_hub="0.0.9")},
        silent={
            "there": run(backend="prime", on_hub="0.1.0"),
            "no secret is needed": run(backend="prime"),
            "not from the hub": run(on_hub="0.0.9"),
        },
    ),
    "RUN049": RuleCases(
        fires={
            "hours": run(budget={"max_gpu_hours": 10, "hours": 8}),
            "dollars": run(budget={"max_dollars": 20, "hours": 8, "gpu_hour_price": 2.5}),
        },
        silent={"within": run(budget={"max_gpu_hours": 16, "hours": 8}), "unknown": run(budget={"max_gpu_hours": 1})},
    ),
    "RUN050": RuleCases(
        fires={"no hours": run(budget={"max_gpu_hours": 64})},
        silent={"hours": run(budget={"max_gpu_hours": 64, "hours": 8}), "no limit": run()},
    ),
    "RUN090": RuleCases(
        fires={"another family": run(ignore={"RWD001": "why"})},
        silent={"known": run(ignore={"RUN041": "a first try"})},
    ),
    "RUN051": RuleCases(
        fires={
            "no recording": run(recorded=None),
            "a scripted recording": run(recorded=SCRIPTED),
        },
        silent={
            "a model played": run(),
            "with a reason": run(recorded=None, baseline={"none": "its tasks are easy"}),
        },
    ),
}
