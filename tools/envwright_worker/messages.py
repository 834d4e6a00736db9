"""Chat messages in OpenAI form, for policies and all readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Message = dict[str, Any]
"""One message of a conversation in OpenAI form: role, content, perhaps tool_calls."""


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))


def says(text: str) -> Message:
    """An assistant message."""
    return {"role": "assistant", "content": text}


def script_of(reply: str | Sequence[str | Mapping[str, Any]]) -> list[Message]:
    """The assistant's messages of a reply, or of the turns of a conversation, each a text or a message."""
    turns = [reply] if isinstance(reply, str) else reply
    return [says(turn) if isinstance(turn, str) else {"role": "assistant", "content": "", **turn} for turn in turns]


def last_words(completion: Sequence[Mapping[str, Any]]) -> str:
    """The text of the last assistant message; empty if there is none."""
    return next((text_of(message) for message in reversed(completion) if message["role"] == "assistant"), "")
