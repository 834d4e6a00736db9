"""A perfect player: reverses what stands between the text tags of the prompt."""

from collections.abc import Mapping, Sequence
from typing import Any


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    text = messages[-1]["content"].partition("<text>")[2].partition("</text>")[0]
    return f"<reversed_text>{''.join(reversed(text))}</reversed_text>"
