"""Mutually exclusive answers, and the probe tasks that every candidate is tried on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from envwright_worker.messages import Message
from envwright_worker.policies.answers import detect_type

PROBE_TASKS = 5
SLACK = Decimal("0.02")
"""Numbers within 2 % of each other do not exclude each other, because rewards round."""


@dataclass(frozen=True)
class ProbeTask:
    """A task with its reference reply."""

    task: Any
    answer: str
    gold: str
    conversation: tuple[Message, ...] = field(default=())
    """The whole conversation of the oracle in a multi-turn environment."""


def exclude_each_other(first: str, second: str, type: str | None = None, tolerance: float = 0.0) -> bool:
    """Whether no answer can be right on both of two tasks with these right answers.

    Deliberately careful: answers that may be two spellings of one, or share an accepted answer, do not exclude each
    other.
    """
    kind = type or _common_type(first, second)
    if kind == "none":
        return False
    numbers = [number_in(text) for text in (first, second)]
    if kind == "number" and numbers[0] is not None and numbers[1] is not None:
        apart = abs(numbers[0] - numbers[1])
        return apart > max(2 * Decimal(str(tolerance)), SLACK * max(abs(numbers[0]), abs(numbers[1])))
    if kind == "choice":
        return _letter(first) != _letter(second)
    if kind in ("list", "set", "json"):
        return _collections_exclude(first, second, declared=type is not None)
    one, other = plain(first), plain(second)
    return one != other and one not in other and other not in one


def _common_type(first: str, second: str) -> str:
    kinds = {detect_type(first), detect_type(second)}
    return kinds.pop() if len(kinds) == 1 else "text"


def _collections_exclude(first: str, second: str, declared: bool) -> bool:
    """Whether they differ in any order. An undeclared list may name the accepted variants of one answer."""
    one, other = elements_of(first), elements_of(second)
    if one.keys() == other.keys():
        return False
    return declared or _is_object(first) or not (one.keys() & other.keys())


def _is_object(text: str) -> bool:
    return text.strip()[:1] == "{"


def elements_of(text: str) -> Counter[str]:
    """The elements of a list, of a JSON value or of lines; pairs for an object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = [part for part in re.split(r"[\n,;]+", text.strip().strip("[](){}")) if part.strip()]
    if isinstance(value, dict):
        return Counter(json.dumps([key, item], sort_keys=True) for key, item in value.items())
    parts = value if isinstance(value, list) else [value]
    return Counter(plain(part if isinstance(part, str) else json.dumps(part, sort_keys=True)) for part in parts)


def plain(text: str) -> str:
    """A text without case, spaces and punctuation; unchanged if nothing else is left."""
    return re.sub(r"[\W_]+", "", text.casefold()) or text.strip()


def number_in(text: str) -> Decimal | None:
    """The number that a text is; `None` if it has none or several."""
    found = re.findall(r"[-−+]?\d[\d,_]*(?:\.\d+)?(?:[eE][-+]?\d+)?", text)
    if len(found) != 1:
        return None
    try:
        return Decimal(re.sub(r"[,_+]", "", found[0]).replace("−", "-"))
    except InvalidOperation:
        return None


def _letter(text: str) -> str:
    match = re.search(r"[A-Za-z]", text)
    return match[0].lower() if match else text.strip()


def probe_tasks_of(
    tasks: Iterable[ProbeTask], type: str | None, tolerance: float, size: int = PROBE_TASKS
) -> list[ProbeTask]:
    """The first tasks whose answers all exclude each other."""
    chosen: list[ProbeTask] = []
    for task in tasks:
        if all(exclude_each_other(task.answer, other.answer, type, tolerance) for other in chosen):
            chosen.append(task)
        if len(chosen) == size:
            break
    return chosen


def chance_of(answers: Sequence[str]) -> float | None:
    """The share of tasks with the most frequent answer: the luck of a constant answer."""
    if not answers:
        return None
    return max(Counter(map(plain, answers)).values()) / len(answers)
