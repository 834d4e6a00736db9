"""Orders in the words of a mail, with second thoughts, and what is ordered in the end."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

WORDS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


class Mail(NamedTuple):
    text: str
    order: dict[str, Any]


def counted(rng: Random, count: int) -> str:
    """A number in digits or in words."""
    return NUMBERS[count - 2] if count < 13 and rng.random() < 0.5 else str(count)


def amount(rng: Random, other_than: int = 0) -> int:
    return rng.choice([count for count in (*range(2, 13), *range(15, 100, 5)) if count != other_than])


def mail(rng: Random) -> Mail:
    """An order of two to four products, sometimes with a number corrected or a product left out."""
    said = {key: rng.choice(texts) for key, texts in WORDS.items()}
    items = {product: amount(rng) for product in rng.sample(WORDS["products"], rng.randint(2, 4))}
    *first, last = (f"{counted(rng, count)} {product}" for product, count in items.items())
    said["items"] = f"{', '.join(first)} and {last}"
    express = rng.random() < 0.5
    sentences = [said["opening"], said["wish"], said["fast"] if express else said["slow"]]

    changed, dropped = rng.sample(list(items), 2)
    if rng.random() < 0.6:
        items[changed] = amount(rng, other_than=items[changed])
        sentences.append(said["change"].format(count=counted(rng, items[changed]), product=changed))
    if rng.random() < 0.4:
        del items[dropped]
        sentences.append(said["drop"].format(product=dropped))

    text = " ".join(sentence.format_map(said) for sentence in sentences)
    order = {"customer": said["firms"], "city": said["cities"], "express": express, "items": items}
    return Mail(f"{said['greetings']}\n{text}", order)


def mails(seed: int) -> Iterator[Mail]:
    """Endless mails, no two alike."""
    rng, told = Random(seed), set[str]()
    while True:
        made = mail(rng)
        if made.text not in told:
            told.add(made.text)
            yield made
