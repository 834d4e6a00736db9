"""Where in a longer text the answer stands: behind `####`, in a box, in a tag, behind "the answer is"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_HASHES = re.compile(r"^####[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_SAID = re.compile(r"\banswer(?: is|:)[ \t]*:?[ \t]*(.+?)[.!]?[ \t]*$", re.IGNORECASE | re.MULTILINE)


def behind_hashes(text: str) -> str | None:
    found = _HASHES.findall(text)
    return found[-1].strip() if found else None


def in_box(text: str) -> str | None:
    """What the last `\\boxed{…}` holds, braces within it included."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    start += len("\\boxed{")
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end].strip() or None
    return None


def in_tag(text: str) -> str | None:
    found = _TAG.findall(text)
    return found[-1].strip() or None if found else None


def behind_words(text: str) -> str | None:
    found = _SAID.findall(text)
    return found[-1].strip() if found and "\n" in text.strip() else None


def behind_thinking(text: str) -> str | None:
    """What follows the last `</think>`."""
    thought, tag, said = text.rpartition("</think>")
    return said.strip() or None if tag and thought else None


MARKS: Mapping[str, Callable[[str], str | None]] = {
    "####": behind_hashes,
    "\\boxed{}": in_box,
    "<answer>": in_tag,
    "</think>": behind_thinking,
    "the answer is": behind_words,
}


def behind(mark: str, value: Any) -> Any:
    """What a value says behind a mark; the value itself where there is no mark to look for."""
    if not mark:
        return value
    return MARKS[mark](value) if isinstance(value, str) else None
