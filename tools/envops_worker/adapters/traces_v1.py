"""Traces of the second generation: made from a conversation, and read back as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire, parse_message
from verifiers.v1.state import state_cls

from envops_worker.adapters.adapter import TaskView, finite_or_none
from envops_worker.messages import Message


def prompt_of(data: Any) -> list[Message]:
    """What the model is shown first: the system prompt and the prompt, in OpenAI form."""
    messages: list[Message] = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
    if isinstance(data.prompt, str):
        return [*messages, {"role": "user", "content": data.prompt}]
    return [*messages, *(message_to_wire(message) for message in data.prompt or [])]


def identity_of(task: Any) -> dict[str, str]:
    """What a trace records of its task beside its data."""
    return {"type": type(task).__name__, "key": task.key, "hash": task.hash}


def trace_of(view: TaskView, completion: Sequence[Message], identity: Mapping[str, str] | None = None) -> Any:
    """The trace that a rollout with this completion leaves behind; the task's identity may be known."""
    task = view.native
    recorded = vf.TraceTask(data=task.data, **(identity or identity_of(task)))
    trace = vf.Trace(task=recorded, state=state_cls(type(task))(), agent=vf.AgentInfo(config=_agent_config()))
    messages = [(parse_message(message), False) for message in view.prompt]
    messages += [(parse_message(message), message["role"] == "assistant") for message in completion]
    for position, (message, sampled) in enumerate(messages):
        parent = position - 1 if position else None
        trace.nodes.append(vf.MessageNode(parent=parent, message=message, sampled=sampled))
    trace.is_completed = True
    trace.stop_condition = "agent_completed"
    return trace


@cache
def _agent_config() -> Any:
    """One for all traces, as all rollouts of an agent share theirs."""
    return vf.AgentConfig(runtime=vf.SubprocessConfig())


def completion_of(trace: Any) -> list[Message]:
    """The conversation behind the prompt, in OpenAI form."""
    nodes = trace.branches[-1].nodes if trace.branches else trace.nodes
    first = next((position for position, node in enumerate(nodes) if node.sampled), len(nodes))
    return [message_to_wire(node.message) for node in nodes[first:]]


def tokens_of(traces: Sequence[Any]) -> tuple[int, int] | None:
    """Tokens of prompts and replies, as the provider counted them."""
    said = [usage for trace in traces if (usage := getattr(trace, "usage", None)) is not None]
    fed = sum(usage.prompt_tokens + (getattr(usage, "cached_input_tokens", None) or 0) for usage in said)
    return (fed, sum(usage.completion_tokens for usage in said)) if said else None


def heard_in(trace: Any) -> tuple[list[Message], list[Message]]:
    """The prompt of a trace's task, and the conversation behind it."""
    return prompt_of(trace.task.data), completion_of(trace)


def rewards_of(traces: Sequence[Any], declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Reward and per-function scores of an episode, as means over its traces: each is a sample in training.

    The reward is `None` where one is missing.
    """
    said: dict[str, list[dict[str, Any]]] = {}
    missing = not traces
    for trace in traces:
        for name, reward in trace.rewards.items():
            weight = declared.get(name, {}).get("weight", 1.0) if reward is None else reward.weight
            score = None if reward is None else finite_or_none(reward.score)
            said.setdefault(name, []).append({"score": score, "weight": weight, "kind": "reward"})
            missing |= reward is None
        for name, value in trace.metrics.items():
            if name not in trace.rewards:
                metric = {"score": finite_or_none(value), "weight": 0.0, "kind": "metric"}
                said.setdefault(name, []).append(metric)
        missing |= not trace.rewards
    functions = {name: parts[0] | {"score": _mean([part["score"] for part in parts])} for name, parts in said.items()}
    return {
        "reward": None if missing else _mean([finite_or_none(trace.reward) for trace in traces]),
        "functions": functions,
    }


def _mean(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if len(known) == len(numbers) else None
