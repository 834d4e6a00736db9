"""How models write tool calls in text, and how they are read back.

Which form a model has been taught is seen from its own chat template: the form is taken that
reads back what the template writes. What cannot be read is text, as inference servers treat it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Calls = list[tuple[str, Any]]
"""Name and arguments of each call."""
Read = tuple[str, Calls]
"""What is said beside the calls, and the calls."""


class CallFormat(NamedTuple):
    """One way to write calls."""

    name: str
    read: Callable[[str], Read]


def _hermes(text: str) -> Read:
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and 3, SmolLM 3."""
    blocks = re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", text, re.DOTALL)
    return _all_or_nothing(text, text.partition("<tool_call>")[0], [_named(_parsed(block)) for block in blocks])


def _qwen_coder(text: str) -> Read:
    """`<function=…><parameter=…>…</parameter></function>`: Qwen 3 Coder, Qwen 3.5 and later."""
    calls: list[tuple[str, Any] | None] = []
    for name, body in re.findall(r"<tool_call>\s*<function=([^>]+)>(.*?)</function>", text, re.DOTALL):
        given = re.findall(r"<parameter=([^>]+)>\n?(.*?)\n?</parameter>", body, re.DOTALL)
        calls.append((name, {key: _value(value) for key, value in given}))
    return _all_or_nothing(text, text.partition("<tool_call>")[0], calls)


def _mistral(text: str) -> Read:
    """`[TOOL_CALLS] [{"name": …, "arguments": …}]`."""
    before, found, rest = text.partition("[TOOL_CALLS]")
    listed = _parsed(rest.strip()) if found else None
    return _all_or_nothing(text, before, [_named(one) for one in listed] if isinstance(listed, list) else [])


def _llama(text: str) -> Read:
    """`{"name": …, "parameters": …}` and nothing else: Llama 3.1 to 3.3."""
    whole = _parsed(text.strip().removeprefix("<|python_tag|>"))
    return _all_or_nothing(text, "", [_named(whole, "parameters")] if isinstance(whole, dict) else [])


FORMATS = (
    CallFormat("Hermes", _hermes),
    CallFormat("Qwen Coder", _qwen_coder),
    CallFormat("Mistral", _mistral),
    CallFormat("Llama 3", _llama),
)
TRIED_NAME, TRIED_ARGUMENTS = "look_it_up", {"word": "heron"}


def format_of(render: Callable[[Sequence[dict[str, Any]], Sequence[dict[str, Any]]], str]) -> CallFormat | None:
    """The form in which a chat template writes calls, `None` where it shows no tools or none of the forms fits."""
    parameters = {"type": "object", "properties": {"word": {"type": "string"}}}
    tool = {"name": TRIED_NAME, "description": "Looks a word up.", "parameters": parameters}
    call = {"id": "c00000000", "type": "function", "function": {"name": TRIED_NAME, "arguments": TRIED_ARGUMENTS}}
    asked: list[dict[str, Any]] = [{"role": "user", "content": "."}]
    called = [*asked, {"role": "assistant", "content": "", "tool_calls": [call]}]
    tools = [{"type": "function", "function": tool}]
    try:
        before = render(asked, tools)
        if TRIED_NAME not in before:
            return None
        text = render(called, tools)
    except ValueError:
        return None
    written = text[_shared(before, text) :]
    ends = [written.rfind(end) for end in ("}", "</tool_call>", "]")]
    candidates = [written, *(written[: end + size] for end, size in zip(ends, (1, 12, 1), strict=True) if end > 0)]
    for known in FORMATS:
        for candidate in candidates:
            core = candidate if known.name != "Llama 3" else candidate[max(0, candidate.find("{")) :]
            if known.read(core)[1] == [(TRIED_NAME, TRIED_ARGUMENTS)]:
                return known
    return None


def _shared(one: str, other: str) -> int:
    length = min(len(one), len(other))
    return next((place for place in range(length) if one[place] != other[place]), length)


def _all_or_nothing(text: str, beside: str, calls: Sequence[tuple[str, Any] | None]) -> Read:
    read = [call for call in calls if call is not None]
    return (beside.strip(), read) if read and len(read) == len(calls) else (text, [])


def _named(value: Any, key: str = "arguments") -> tuple[str, Any] | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get(key, {})
    return (value["name"], arguments) if isinstance(arguments, dict) else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _value(text: str) -> Any:
    """A parameter as Qwen Coder writes it: JSON where it is some, else text."""
    value = _parsed(text)
    return text if value is None and text.strip() != "null" else value
