"""Arithmetic stories, each with one whole number to find.

A story needs one to four operations. Four families differ in the arithmetic, and each has several settings (in
stories.toml), so the same sum is told in many different words.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

WORDS = tomllib.loads(Path(__file__).with_name("stories.toml").read_text("utf-8"))


class Story(NamedTuple):
    kind: str
    text: str
    answer: int


def collection(rng: Random) -> tuple[str, int]:
    """A number of things that grows, shrinks, multiplies and is shared, step by step."""
    name, count = rng.choice(WORDS["names"]), rng.randint(20, 900)
    sentences = [f"{name} has {count} {rng.choice(WORDS['things'])}."]
    for _ in range(rng.randint(1, 4)):
        amount, factor = rng.randint(3, 250), rng.randint(2, 9)
        outcomes = {"gain": count + amount, "growth": count * factor}
        if amount < count:
            outcomes["loss"] = count - amount
        if count % factor == 0:
            outcomes["share"] = count // factor
        event, count = rng.choice(list(outcomes.items()))
        sentences.append(rng.choice(WORDS["events"][event]).format(name=name, amount=amount, factor=factor))
    return f"{' '.join(sentences)} How many does {name} have now?", count


def products(rng: Random) -> tuple[str, int]:
    """One or two products and their sum, or what the sum leaves of a limit."""
    name, setting = rng.choice(WORDS["names"]), rng.choice(WORDS["products"])
    sentences, total = [], 0
    for item in rng.sample(setting["items"], rng.randint(1, 2)):
        a, b = rng.randint(2, 19), rng.randint(3, 80)
        sentences.append(setting["leg"].format(name=name, a=a, b=b, item=item))
        total += a * b
    if rng.random() < 0.5:
        return " ".join([*sentences, setting["total"]]), total
    rest = rng.randint(5, 900)
    return " ".join([*sentences, setting["rest"].format(name=name, limit=total + rest)]), rest


def packing(rng: Random) -> tuple[str, int]:
    """A product, less some losses, divided into containers and perhaps sold."""
    setting, a, b, d = rng.choice(WORDS["packing"]), rng.randint(4, 40), rng.randint(10, 60), rng.randint(3, 9)
    full = rng.randint(2, (a * b - 1) // d)
    text, container = setting["text"].format(a=a, b=b, c=a * b - full * d, d=d), setting["container"]
    if rng.random() < 0.5:
        return f"{text} How many {container}s does that fill?", full
    price = rng.randint(2, 15)
    return f"{text} Each {container} is sold for {price} euros. How many euros does that bring in?", full * price


def comparison(rng: Random) -> tuple[str, int]:
    """Two or three people, each with a number that depends on the one before."""
    (first, second, third), things = rng.sample(WORDS["names"], 3), rng.choice(WORDS["things"])
    counts, factor, fewer = [rng.randint(12, 400)], rng.randint(2, 9), rng.randint(5, 20)
    counts.append(counts[0] * factor)
    text = f"{first} has {counts[0]} {things}. {second} has {factor} times as many as {first}."
    if rng.random() < 0.5:
        counts.append(counts[1] - fewer)
        text += f" {third} has {fewer} fewer than {second}."
    if rng.random() < 0.5:
        return f"{text} How many {things} do they have altogether?", sum(counts)
    return f"{text} How many {things} does {(first, second, third)[len(counts) - 1]} have?", counts[-1]


def stories(seed: int) -> Iterator[Story]:
    """Endless stories, no two alike and none with its answer among the numbers it tells."""
    rng, told = Random(seed), set[str]()
    while True:
        family = rng.choice((collection, products, packing, comparison))
        text, answer = family(rng)
        if text not in told and str(answer) not in re.findall(r"\d+", text):
            told.add(text)
            yield Story(family.__name__, text, answer)
