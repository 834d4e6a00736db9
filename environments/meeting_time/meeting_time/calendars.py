"""Two calendars with one free hour in common."""

import re
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

HOURS = range(8, 18)
TAG = re.compile(r"</?(?:think|meeting)>")
HOUR = re.compile(r"(\d{1,2})(?::00)?", re.ASCII)  # 9, 09, 14 or 14:00


class Calendars(NamedTuple):
    """The hours in which each of the two is busy, and the one in which both are free."""

    ana: list[int]
    ben: list[int]
    hour: int


def calendars(seed: int) -> Iterator[Calendars]:
    """Endless pairs of calendars, no two alike. Every hour but one is taken in one of them, some in both."""
    rng, told = Random(seed), set[str]()
    while True:
        hour = rng.choice(HOURS)
        others = [other for other in HOURS if other != hour]
        taken_by = {other: rng.choice(("ana", "ben", "both")) for other in others}
        ana, ben = ([other for other in others if taken_by[other] in (name, "both")] for name in ("ana", "ben"))
        made = Calendars(ana, ben, hour)
        if str(made) not in told and min(len(ana), len(ben)) > 2 and max(len(ana), len(ben)) < len(others):
            told.add(str(made))
            yield made


def named_hour(message: str) -> int | None:
    """The hour in the one `<meeting>` tag after any thinking; None without such a tag or with several."""
    final = message.partition("</think>")[2] or message
    if TAG.findall(final) != ["<meeting>", "</meeting>"]:
        return None
    found = HOUR.fullmatch(TAG.split(final)[1].strip())
    return int(found[1]) if found else None


def agreed(*messages: str) -> int | None:
    """The hour that all of the messages name; None if they do not name the same one."""
    named = {named_hour(message) for message in messages}
    return named.pop() if len(named) == 1 else None
