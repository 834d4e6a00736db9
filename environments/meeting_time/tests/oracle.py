"""A perfect player: first names the own free hours, then the one that is among the other's, too."""

import re
from collections.abc import Mapping, Sequence
from typing import Any


def numbers(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"\b\d+\b", text)}


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    notes = next((message["content"] for message in messages if message["role"] == "system"), task["notes"]["ana"])
    free = set(range(8, 18)) - numbers(notes.partition("In all other hours")[0])
    heard = [message["content"] for message in messages if message["role"] == "user"][1:]
    if not heard:
        return f"I am free at {', '.join(map(str, sorted(free)))}."
    (hour,) = free & numbers(heard[0])
    return f"Then we can meet: <meeting>{hour}</meeting>"
