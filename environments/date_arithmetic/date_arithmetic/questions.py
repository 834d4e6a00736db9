"""Questions about the calendar. The answer to each is a date."""

import calendar
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Literal
from zlib import crc32

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ORDINALS = ("first", "second", "third", "fourth")


def written(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def random_day(rng: Random) -> date:
    return date(1900, 1, 1) + timedelta(rng.randrange(200 * 365))


def later_or_earlier(rng: Random) -> tuple[str, date]:
    start, count, (unit, days) = random_day(rng), rng.randint(2, 400), rng.choice((("days", 1), ("weeks", 7)))
    direction, sign = rng.choice((("after", 1), ("before", -1)))
    return f"Which date is {count} {unit} {direction} {written(start)}?", start + timedelta(sign * count * days)


def months_later(rng: Random) -> tuple[str, date]:
    start, count = random_day(rng), rng.randint(2, 40)
    year, month = divmod(start.year * 12 + start.month - 1 + count, 12)
    day = min(start.day, calendar.monthrange(year, month + 1)[1])
    rule = "If that month is too short for the day, take the month's last day."
    return f"Which date is {count} months after {written(start)}? {rule}", date(year, month + 1, day)


def working_days_later(rng: Random) -> tuple[str, date]:
    start, count = random_day(rng), rng.randint(2, 60)
    day = start
    for _ in range(count):
        day += timedelta(3 if day.weekday() == 4 else 2 if day.weekday() == 5 else 1)
    weekday = WEEKDAYS[start.weekday()]
    return f"{weekday}, {written(start)}: which date is {count} working days (Monday to Friday) later?", day


def nth_weekday(rng: Random) -> tuple[str, date]:
    month, n, weekday = random_day(rng).replace(day=1), rng.randrange(4), rng.randrange(7)
    day = month + timedelta((weekday - month.weekday()) % 7 + 7 * n)
    return f"On which date is the {ORDINALS[n]} {WEEKDAYS[weekday]} of {MONTHS[month.month - 1]} {month.year}?", day


def halfway(rng: Random) -> tuple[str, date]:
    start, half = random_day(rng), timedelta(rng.randint(5, 300))
    return f"Which date is halfway between {written(start)} and {written(start + 2 * half)}?", start + half


def questions(seed: int, split: Literal["train", "eval"]) -> Iterator[tuple[str, date]]:
    """Endless questions and answers of a split, no two alike.

    A checksum of the question decides its split, so no seed ever puts a question of one split into the other.
    """
    rng, asked = Random(seed), set[str]()
    while True:
        text, answer = rng.choice((later_or_earlier, months_later, working_days_later, nth_weekday, halfway))(rng)
        if text not in asked and (crc32(text.encode()) % 5 == 0) == (split == "eval"):
            asked.add(text)
            yield text, answer
