"""What the endpoint says, in the words of OpenAI's API: chat and plain completions, whole or as a stream.

Both clients that evaluations use here by default, verifiers' own v0 client and the relay of its v1, speak
chat completions; v0 environments with `message_type="completion"` speak plain completions.
Tokens are counted as words and the blanks before them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envops_worker.messages import Message, text_of

SILENCE = " "
"""Saying nothing, over HTTP: verifiers 0.1.14 and later call a truly empty message an error."""
MOST_CHOICES = 128
_TOKEN = re.compile(r"\s*\S+|\s+$")


class BadRequest(ValueError):
    """A request that the API would refuse, and why."""


@dataclass(frozen=True)
class Spoken:
    """One choice: the message as it goes out, and why it ends."""

    message: Message
    finish_reason: str
    tokens: int


def asked_choices(body: Mapping[str, Any]) -> int:
    """How many replies a request asks for. Raises `BadRequest`."""
    count = body.get("n") or 1
    if not isinstance(count, int) or not 1 <= count <= MOST_CHOICES:
        raise BadRequest(f"n must be a number from 1 to {MOST_CHOICES}")
    return count


def asked_tokens(body: Mapping[str, Any]) -> int | None:
    """How long a reply may be at most. Raises `BadRequest`."""
    limit = body.get("max_completion_tokens") or body.get("max_output_tokens") or body.get("max_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise BadRequest("max_tokens must be a number from 1 on")
    return limit


def tokens_of(text: str) -> list[str]:
    """The text in pieces that add up to it."""
    return _TOKEN.findall(text)


def spoken(message: Message, limit: int | None) -> Spoken:
    """A policy's message as a choice, cut off where it is longer than allowed."""
    said: Message = {"role": "assistant", "content": message.get("content") or ""}
    calls = message.get("tool_calls")
    if not said["content"] and not calls:
        said["content"] = SILENCE
    if calls:
        said["tool_calls"] = calls
    pieces = tokens_of(text_of(said)) + [piece for call in calls or [] for piece in tokens_of(json.dumps(call))]
    if limit is not None and len(pieces) > limit:
        cut = {"role": "assistant", "content": "".join(tokens_of(text_of(said))[:limit])}
        return Spoken(cut, "length", limit)
    return Spoken(said, "tool_calls" if calls else "stop", len(pieces))


def prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """Tokens of what was sent."""
    return sum(len(tokens_of(text_of(dict(one)))) for one in messages)


def usage_of(choices: Sequence[Spoken], messages: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The `usage` of a response."""
    fed, said = prompt_tokens(messages), sum(choice.tokens for choice in choices)
    return {"prompt_tokens": fed, "completion_tokens": said, "total_tokens": fed + said}


def _head(kind: str, model: str) -> dict[str, Any]:
    start = "cmpl" if kind.startswith("text") else "chatcmpl"
    return {"id": f"{start}-{time.monotonic_ns():x}", "object": kind, "created": int(time.time()), "model": model}


def chat_response(model: str, choices: Sequence[Spoken], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to /v1/chat/completions."""
    listed = [
        {"index": index, "message": one.message, "finish_reason": one.finish_reason}
        for index, one in enumerate(choices)
    ]
    return {**_head("chat.completion", model), "choices": listed, "usage": usage_of(choices, messages)}


def text_response(model: str, choices: Sequence[Spoken], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to /v1/completions."""
    listed = [
        {"index": index, "text": text_of(one.message), "finish_reason": one.finish_reason, "logprobs": None}
        for index, one in enumerate(choices)
    ]
    return {**_head("text_completion", model), "choices": listed, "usage": usage_of(choices, messages)}


def chat_events(
    model: str, choices: Sequence[Spoken], messages: Sequence[Mapping[str, Any]], *, with_usage: bool
) -> Iterator[bytes]:
    """The same answer as server-sent events, one piece of text each."""
    head = _head("chat.completion.chunk", model)

    def event(index: int, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        return _event({**head, "choices": [{"index": index, "delta": delta, "finish_reason": finish}]})

    for index, one in enumerate(choices):
        yield event(index, {"role": "assistant", "content": ""})
        for piece in tokens_of(text_of(one.message)):
            yield event(index, {"content": piece})
        for position, call in enumerate(one.message.get("tool_calls") or []):
            yield event(index, {"tool_calls": [{"index": position, **call}]})
        yield event(index, {}, one.finish_reason)
    if with_usage:
        yield _event({**head, "choices": [], "usage": usage_of(choices, messages)})
    yield b"data: [DONE]\n\n"


def text_events(
    model: str, choices: Sequence[Spoken], messages: Sequence[Mapping[str, Any]], *, with_usage: bool
) -> Iterator[bytes]:
    """Plain completions as server-sent events."""
    head = _head("text_completion", model)
    for index, one in enumerate(choices):
        for piece in tokens_of(text_of(one.message)):
            yield _event({**head, "choices": [{"index": index, "text": piece, "finish_reason": None}]})
        yield _event({**head, "choices": [{"index": index, "text": "", "finish_reason": one.finish_reason}]})
    if with_usage:
        yield _event({**head, "choices": [], "usage": usage_of(choices, messages)})
    yield b"data: [DONE]\n\n"


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def wants_usage(body: Mapping[str, Any]) -> bool:
    """Whether a stream is to end with its usage."""
    return bool((body.get("stream_options") or {}).get("include_usage"))


def messages_of_prompt(prompt: Any) -> list[Message]:
    """The prompt of a plain completion as a conversation of one message. Raises `BadRequest`."""
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise BadRequest("prompt must be one text")
    return [{"role": "user", "content": prompt}]
