"""People to sort, handed out in batches."""

import tomllib
from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from pathlib import Path
from random import Random
from typing import NamedTuple

NAMES = tomllib.loads(Path(__file__).with_name("names.toml").read_text("utf-8"))

KEYS: dict[str, Callable[[str], str]] = {
    "first name": lambda person: person.split()[0],
    "last name": lambda person: person.split()[1],
}


class Guests(NamedTuple):
    """Batches of people who arrive one after the other, and what they are sorted by."""

    key: str
    batches: list[list[str]]

    def sorted_lists(self) -> list[list[str]]:
        """After each batch, everyone so far in order."""
        return [sorted(everyone, key=KEYS[self.key]) for everyone in accumulate(self.batches)]


def guests(seed: int, most_turns: int) -> Iterator[Guests]:
    """Endless guest lists in two to `most_turns` batches. No two people of a list share a first or last name."""
    rng = Random(seed)
    while True:
        sizes = [rng.randint(3, 5), *(rng.randint(1, 4) for _ in range(rng.randint(1, most_turns - 1)))]
        names = zip(rng.sample(NAMES["first"], sum(sizes)), rng.sample(NAMES["last"], sum(sizes)), strict=True)
        people = (f"{first} {last}" for first, last in names)
        party = Guests(rng.choice(list(KEYS)), [list(islice(people, size)) for size in sizes])
        if party.sorted_lists()[0] != party.batches[0]:
            yield party
