"""Descriptions of functions on lists of numbers, put together from steps, and what they return."""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

Numbers = list[int]


class Exercise(NamedTuple):
    description: str
    inputs: list[Numbers]
    outputs: list[int]


def changes(factor: int, shift: int) -> dict[str, Callable[[int], int]]:
    """What is done to each number."""
    return {
        f"multiply each number by {factor} and add {shift}": lambda n: n * factor + shift,
        f"multiply each number by {factor} and subtract {shift} from it": lambda n: n * factor - shift,
        f"square each number and add {shift}": lambda n: n * n + shift,
    }


def choices(bound: int) -> dict[str, Callable[[int], bool]]:
    """Which of the changed numbers are kept."""
    return {
        "keep the odd ones": lambda n: n % 2 != 0,
        "keep those that can be divided by 3": lambda n: n % 3 == 0,
        f"keep those greater than {bound}": lambda n: n > bound,
        f"keep those less than {bound}": lambda n: n < bound,
    }


RESULTS: dict[str, Callable[[Numbers], int]] = {
    "their sum": sum,
    "the largest of them": max,
    "the sum of the largest and the smallest of them": lambda kept: max(kept) + min(kept),
    "the product of the first and the last of them": lambda kept: kept[0] * kept[-1],
}


def exercise(rng: Random) -> Exercise:
    change, changed = rng.choice(list(changes(rng.randint(2, 9), rng.randint(1, 30)).items()))
    choice, kept = rng.choice(list(choices(rng.randint(5, 60)).items()))
    result, found = rng.choice(list(RESULTS.items()))
    inputs = [[], *([rng.randint(-40, 40) for _ in range(rng.randint(1, 9))] for _ in range(11))]

    def solved(numbers: Numbers) -> int:
        left = [n for n in map(changed, numbers) if kept(n)]
        return found(left) if left else 0

    description = f"First {change}. Of the results, {choice}. Return {result}, or 0 if there are none."
    return Exercise(description, inputs, [solved(numbers) for numbers in inputs])


def exercises(seed: int) -> Iterator[Exercise]:
    """Endless exercises, no two with the same description; most inputs of each leave something to compute."""
    rng, told = Random(seed), set[str]()
    while True:
        made = exercise(rng)
        if made.description not in told and len({*made.outputs} - {0}) > 4:
            told.add(made.description)
            yield made
