"""Where the releases of verifiers' first generation differ: messages, clients, results.

0.1.8 and 0.1.9 speak plain dictionaries and OpenAI's own client; later ones have types of
their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envops_worker.messages import Message

try:
    from verifiers.utils.message_utils import normalize_messages
except ImportError:  # 0.1.8 and 0.1.9 speak plain dictionaries
    normalize_messages = None

__all__ = [
    "Unlimited",
    "heard_in",
    "normalize_messages",
    "openai_form",
    "prompt_of",
    "resolved_client",
    "rows_of_columns",
    "trajectory_step",
]


class Unlimited:
    """A semaphore that never waits, for the releases that ask for one."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


def trajectory_step(before: Sequence[Any], message: Any, state: Any) -> dict[str, Any]:
    return {
        "prompt": list(before),
        "completion": [message],
        "response": None,
        "tokens": None,
        "reward": None,
        "advantage": None,
        "is_truncated": False,
        "trajectory_id": state.get("trajectory_id"),
        "extras": {},
    }


def resolved_client(base_url: str, seconds: float, retries: int = 0) -> Any:
    """A client of the release at hand that talks to one endpoint."""
    try:
        from verifiers.clients import resolve_client
        from verifiers.types import ClientConfig
    except ImportError:
        from openai import AsyncOpenAI

        return AsyncOpenAI(base_url=base_url, api_key="scripted", max_retries=retries, timeout=seconds)
    key = "ENVOPS_ENDPOINT_KEY"
    config = ClientConfig(api_base_url=base_url, api_key_var=key, max_retries=retries, timeout=seconds)
    return resolve_client(config)


def prompt_of(row: Mapping[str, Any]) -> list[Message]:
    """What the model is shown first, in OpenAI form."""
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [openai_form(message) for message in prompt or []]


def heard_in(state: Mapping[str, Any]) -> tuple[list[Message], list[Message]]:
    """The prompt and the completion of a rollout's state."""
    return prompt_of(state), prompt_of({"prompt": state["completion"]})


def openai_form(message: Any) -> Message:
    """A message of any v0 release as OpenAI writes it, empty fields left out."""
    raw = message.model_dump() if hasattr(message, "model_dump") else dict(message)
    known = {"role": raw.get("role"), "content": raw.get("content") or ""}
    calls = [_openai_call(call) for call in raw.get("tool_calls") or []]
    if calls:
        known["tool_calls"] = calls
    if raw.get("tool_call_id"):
        known["tool_call_id"] = raw["tool_call_id"]
    return known


def _openai_call(call: Any) -> dict[str, Any]:
    if isinstance(call, str):
        call = json.loads(call)
    raw = call.model_dump() if hasattr(call, "model_dump") else dict(call)
    if "function" in raw:
        return raw
    function = {"name": raw.get("name"), "arguments": raw.get("arguments")}
    return {"id": raw.get("id"), "type": "function", "function": function}


def rows_of_columns(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a result that 0.1.8 and 0.1.9 return as columns."""
    for position, example in enumerate(results["example_id"]):
        state = results["state"][position]
        yield {
            "example_id": example,
            "reward": results["reward"][position],
            "completion": results["completion"][position],
            "metrics": {name: column[position] for name, column in results["metrics"].items()},
            "error": state.get("error"),
            "envops_failures": state.get("envops_failures"),
            "stop_condition": state.get("stop_condition"),
        }
