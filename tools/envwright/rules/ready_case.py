"""An entry for tests/cases.yaml, ready to be pasted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envwright_worker.messages import Message


def ready_case(name: str, task: int, completion: Sequence[Message], expect: Mapping[str, float | str | None]) -> str:
    """The conversation as a case that expects these numbers or comparisons; `None` is left out."""
    expected = ", ".join(f"{function}: {_expected(value)}" for function, value in expect.items() if value is not None)
    turns = [message for message in completion if message.get("role") == "assistant"]
    lines = [f"- name: {_scalar(name)}", f"  task: {task}"]
    if len(turns) == 1 and not turns[0].get("tool_calls"):
        lines.append(f"  reply: {_turn(turns[0])}")
    else:
        lines += ["  reply:", *(f"    - {_turn(message)}" for message in turns)]
    return "\n".join([*lines, f"  expect: {{{expected}}}"])


def _expected(value: float | str) -> str:
    return _scalar(value) if isinstance(value, str) else f"{value:.9g}"


def _turn(message: Message) -> str:
    """A turn as a scalar or, if it calls tools, as the message itself; JSON is YAML, too."""
    if message.get("tool_calls"):
        return json.dumps({key: value for key, value in message.items() if value is not None}, ensure_ascii=False)
    content: Any = message.get("content") or ""
    return _scalar(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))


def _scalar(text: str) -> str:
    """Text in double quotes with invisible characters escaped."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    if "\ud800" <= char <= "\udfff":  # half of a pair, which no file can hold
        return "?"
    return json.dumps(char)[1:-1] if char <= "\uffff" else f"\\U{ord(char):08x}"
