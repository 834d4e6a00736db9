"""A perfect player: seats one person after the other and goes back where a clue is broken."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def broken(clue: str, seats: Mapping[str, int]) -> bool:
    a, b = (seats.get(name) for name in re.findall(r"[A-Z]\w+", clue.removeprefix("Exactly")))
    if a is None or b is None:
        return False
    if "left" in clue:
        return a > b
    if "right" in clue:
        return a - b != 1
    if "between" in clue:
        return {a - b, b - a} != {2, -2}
    return ({a - b, b - a} == {1, -1}) is ("not" in clue)


def seatings(people: Sequence[str], clues: Sequence[str], seats: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    if any(broken(clue, seats) for clue in clues):
        return
    if not people:
        yield seats
    for seat in {1, 2, 3, 4, 5} - {*seats.values()} if people else ():
        yield from seatings(people[1:], clues, {**seats, people[0]: seat})


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    _intro, clues, question, _format = messages[-1]["content"].split("\n\n")
    choices = {person: letter for letter, person in re.findall(r"^([A-E])\) (\w+)$", question, re.MULTILINE)}
    seat = int(re.search(r"seat (\d)", question)[1])
    first = next(seatings(list(choices), clues.splitlines(), {}))
    (person,) = (person for person, taken in first.items() if taken == seat)
    return f"Trying seats one by one: it is {person}.\n<answer>{choices[person]}</answer>"
