"""A perfect player: counts day by day on a calendar of its own."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ORDINALS = ("first", "second", "third", "fourth")


class Day(NamedTuple):
    year: int
    month: int
    day: int

    def month_length(self) -> int:
        leap = self.year % 4 == 0 and (self.year % 100 != 0 or self.year % 400 == 0)
        return 28 + leap if self.month == 2 else 30 if self.month in (4, 6, 9, 11) else 31

    def next(self) -> "Day":
        if self.day < self.month_length():
            return self._replace(day=self.day + 1)
        return Day(self.year + (self.month == 12), self.month % 12 + 1, 1)

    def previous(self) -> "Day":
        if self.day > 1:
            return self._replace(day=self.day - 1)
        before = Day(self.year - (self.month == 1), (self.month - 2) % 12 + 1, 1)
        return before._replace(day=before.month_length())

    def weekday(self) -> int:
        """Zeller's rule, with Monday as 0."""
        year, month = (self.year - 1, self.month + 12) if self.month < 3 else (self.year, self.month)
        century, rest = divmod(year, 100)
        return (self.day + 13 * (month + 1) // 5 + rest + rest // 4 + century // 4 + 5 * century + 5) % 7


def find(question: str) -> Day:
    days = [
        Day(int(year), MONTHS.index(month) + 1, int(day))
        for day, month, year in re.findall(r"(\d+) ([A-Z]\w+) (\d{4})", question)
    ]
    count = int(number[1]) if (number := re.search(r"(\d+) (?:days|weeks|months|working)", question)) else 0
    if "halfway" in question:
        first, last = days
        while first < last:
            first, last = first.next(), last.previous()
        return first
    if nth := re.search(r"the (\w+) (\w+day) of (\w+) (\d+)", question):
        day, seen = Day(int(nth[4]), MONTHS.index(nth[3]) + 1, 1), 0
        while (seen := seen + (day.weekday() == WEEKDAYS.index(nth[2]))) <= ORDINALS.index(nth[1]):
            day = day.next()
        return day
    (day,) = days
    if "months after" in question:
        for _ in range(count):
            day = Day(day.year + (day.month == 12), day.month % 12 + 1, day.day)
        return day._replace(day=min(day.day, day.month_length()))
    while count:
        day = day.previous() if "before" in question else day.next()
        whole_week = "weeks" not in question or day.weekday() == days[0].weekday()
        working_day = "working" not in question or day.weekday() < 5
        count -= whole_week and working_day
    return day


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    year, month, day = find(messages[-1]["content"])
    return f"<think>\nCounting on a calendar.\n</think>\n<answer>\n{year}-{month:02}-{day:02}\n</answer>"
