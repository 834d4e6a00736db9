"""A perfect player: says the description that comes with the word."""

from collections.abc import Mapping, Sequence
from typing import Any


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    return f"<description>{task['reference']}</description>"
