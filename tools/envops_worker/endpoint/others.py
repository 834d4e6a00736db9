"""The dialects that verifiers' other clients speak: Anthropic's Messages and OpenAI's Responses.

v0 ships a client for either (`client_type`), and the relay of v1 hands on whatever its harness
speaks. Requests become conversations in the form of chat completions, and replies are put back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envops_worker.endpoint.dialects import Spoken, tokens_of, usage_of
from envops_worker.messages import Message, text_of

_ANTHROPIC_ENDS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def of_messages(body: Mapping[str, Any]) -> list[Message]:
    """The conversation of a request to /v1/messages."""
    found: list[Message] = []
    if body.get("system"):
        found.append({"role": "system", "content": _joined(body["system"])})
    for message in body.get("messages") or []:
        content = message.get("content") or ""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block.get("type") == "tool_result":
                said = _joined(block.get("content") or "")
                found.append({"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": said})
        text = _joined([block for block in blocks if block.get("type") == "text"])
        calls = [
            _call(block.get("id"), block.get("name"), json.dumps(block.get("input") or {}))
            for block in blocks
            if block.get("type") == "tool_use"
        ]
        if text or calls or not blocks:
            found.append({"role": message.get("role"), "content": text} | ({"tool_calls": calls} if calls else {}))
    return found


def of_responses(body: Mapping[str, Any]) -> list[Message]:
    """The conversation of a request to /v1/responses."""
    found: list[Message] = []
    if body.get("instructions"):
        found.append({"role": "system", "content": body["instructions"]})
    given = body.get("input") or []
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        match item.get("type", "message"):
            case "message":
                role = "system" if item.get("role") == "developer" else item.get("role")
                found.append({"role": role, "content": _joined(item.get("content") or "")})
            case "function_call":
                if not found or found[-1]["role"] != "assistant":
                    found.append({"role": "assistant", "content": ""})
                call = _call(item.get("call_id"), item.get("name"), item.get("arguments") or "{}")
                found[-1].setdefault("tool_calls", []).append(call)
            case "function_call_output":
                said = _joined(item.get("output") or "")
                found.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": said})
    return found


def _joined(content: Any) -> str:
    """The text of a content that is text or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping) and "text" in part)


def _call(identifier: Any, name: Any, arguments: str) -> dict[str, Any]:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def _number() -> str:
    return f"{time.monotonic_ns():x}"


def messages_response(model: str, choices: Sequence[Spoken], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to /v1/messages."""
    one, usage = choices[0], usage_of(choices[:1], messages)
    return {
        "id": f"msg_{_number()}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _blocks(one),
        "stop_reason": _ANTHROPIC_ENDS[one.finish_reason],
        "stop_sequence": None,
        "usage": {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]},
    }


def _blocks(one: Spoken) -> list[dict[str, Any]]:
    text = text_of(one.message)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call in one.message.get("tool_calls") or []:
        wanted = json.loads(call["function"]["arguments"] or "{}")
        blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": wanted})
    return blocks


def messages_events(
    model: str,
    choices: Sequence[Spoken],
    messages: Sequence[Mapping[str, Any]],
    *,
    with_usage: bool,  # noqa: ARG001
) -> Iterator[bytes]:
    """The same as server-sent events; the usage always comes along."""
    whole = messages_response(model, choices, messages)
    yield _event("message_start", message=whole | {"content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            deltas = [{"type": "text_delta", "text": piece} for piece in tokens_of(block["text"])]
        else:
            yield _event("content_block_start", index=index, content_block=block | {"input": {}})
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=end, usage={"output_tokens": whole["usage"]["output_tokens"]})
    yield _event("message_stop")


def responses_response(model: str, choices: Sequence[Spoken], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to /v1/responses."""
    one, usage = choices[0], usage_of(choices[:1], messages)
    cut = one.finish_reason == "length"
    return {
        "id": f"resp_{_number()}",
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "top_p": 1.0,
        "output": _items(one),
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
    }


def _items(one: Spoken) -> list[dict[str, Any]]:
    text, number = text_of(one.message), _number()
    items: list[dict[str, Any]] = []
    if text:
        said = {"type": "output_text", "text": text, "annotations": []}
        about = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
        items.append({**about, "content": [said]})
    for position, call in enumerate(one.message.get("tool_calls") or []):
        about = {"type": "function_call", "id": f"fc_{number}{position}", "status": "completed"}
        items.append({**about, "call_id": call["id"], **call["function"]})
    return items


def responses_events(
    model: str,
    choices: Sequence[Spoken],
    messages: Sequence[Mapping[str, Any]],
    *,
    with_usage: bool,  # noqa: ARG001
) -> Iterator[bytes]:
    """The same as server-sent events; the usage always comes along."""
    whole = responses_response(model, choices, messages)
    beginning = whole | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    told: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": beginning})]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        begun = {"output_index": index, "item": {**item, **_begun(item)}}
        told.append(("response.output_item.added", begun))
        if item["type"] == "message":
            part = at | {"content_index": 0}
            text = item["content"][0]["text"]
            told.append(("response.content_part.added", part | {"part": item["content"][0] | {"text": ""}}))
            pieces = tokens_of(text)
            told += [("response.output_text.delta", part | {"delta": piece, "logprobs": []}) for piece in pieces]
            told.append(("response.output_text.done", part | {"text": text, "logprobs": []}))
            told.append(("response.content_part.done", part | {"part": item["content"][0]}))
        else:
            told.append(("response.function_call_arguments.delta", at | {"delta": item["arguments"]}))
            told.append(("response.function_call_arguments.done", at | {"arguments": item["arguments"]}))
        told.append(("response.output_item.done", {"output_index": index, "item": item}))
    told.append((f"response.{whole['status']}", {"response": whole}))
    for number, (kind, data) in enumerate(told):
        yield _event(kind, sequence_number=number, **data)


def _begun(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": "in_progress", **({"content": []} if item["type"] == "message" else {"arguments": ""})}


def _event(kind: str, **data: Any) -> bytes:
    said = json.dumps({"type": kind, **data}, separators=(",", ":"))
    return f"event: {kind}\ndata: {said}\n\n".encode()
