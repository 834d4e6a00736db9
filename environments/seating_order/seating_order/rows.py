"""People in a row, and clues that tell who sits where."""

from collections.abc import Callable, Iterator
from itertools import permutations
from random import Random
from typing import NamedTuple

PEOPLE = ("Anna", "Boris", "Clara", "David", "Elena", "Felix", "Gina", "Henry", "Iris", "Jakob", "Lena", "Milo")
SEATS = 5

Row = tuple[str, ...]  # people from left to right

# What a clue says of two people, and whether it holds for the seats they have.
CLUES: dict[str, Callable[[int, int], bool]] = {
    "{a} sits somewhere to the left of {b}.": lambda a, b: a < b,
    "{a} sits directly to the right of {b}.": lambda a, b: a == b + 1,
    "{a} and {b} sit side by side.": lambda a, b: abs(a - b) == 1,
    "{a} and {b} do not sit side by side.": lambda a, b: abs(a - b) != 1,
    "Exactly one person sits between {a} and {b}.": lambda a, b: abs(a - b) == 2,
}


class Puzzle(NamedTuple):
    clues: list[str]
    seat: int
    choices: list[str]
    letter: str


def puzzle(rng: Random) -> Puzzle:
    """True clues, one after the other, until only one person can have the seat that is asked for."""
    people = rng.sample(PEOPLE, SEATS)
    row, seat = tuple(rng.sample(people, SEATS)), rng.randrange(SEATS)
    possible, clues = list(permutations(people)), list[str]()
    while len({other[seat] for other in possible}) > 1:
        (a, b), (text, holds) = rng.sample(people, 2), rng.choice(list(CLUES.items()))
        left = [other for other in possible if holds(other.index(a), other.index(b))]
        if row in left and len(left) < len(possible):
            possible = left
            clues.append(text.format(a=a, b=b))
    return Puzzle(clues, seat + 1, people, "ABCDE"[people.index(row[seat])])


def puzzles(seed: int) -> Iterator[Puzzle]:
    """Endless puzzles, no two with the same clues."""
    rng, told = Random(seed), set[str]()
    while True:
        made = puzzle(rng)
        text = " ".join(made.clues)
        if text not in told:
            told.add(text)
            yield made
