"""The books of made-up companies, and questions about them."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
COMPANIES = [f"{place} {trade}" for place in WORDS["places"] for trade in WORDS["trades"]]


class Entry(NamedTuple):
    date: str
    supplier: str
    amount: int


class Account(NamedTuple):
    number: int
    name: str
    entries: list[Entry]

    @property
    def total(self) -> int:
        return sum(entry.amount for entry in self.entries)


def books(seed: int, company: str) -> list[Account]:
    """The accounts of a company: the same ones whenever they are asked for. Other companies have none."""
    rng = Random(f"{seed}/{company}")
    numbers, names = sorted(rng.sample(range(1000, 9999), 5)), rng.sample(WORDS["accounts"], 5)
    accounts = zip(numbers, names, strict=True) if company in COMPANIES else ()
    return [Account(number, name, entries(rng)) for number, name in accounts]


def entries(rng: Random) -> list[Entry]:
    """A year of one account, in order of date."""
    suppliers = rng.sample(WORDS["suppliers"], 3)
    return sorted(
        Entry(f"2025-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}", rng.choice(suppliers), rng.randint(100, 9999))
        for _ in range(rng.randint(5, 10))
    )


def question(rng: Random, accounts: list[Account]) -> tuple[str, int]:
    """Something that only the entries of one or two accounts can tell."""
    account, other = sorted(rng.sample(accounts, 2), key=lambda account: -account.total)
    supplier = rng.choice(account.entries).supplier
    paid = sum(entry.amount for entry in account.entries if entry.supplier == supplier)
    largest = max(entry.amount for entry in account.entries)
    difference = account.total - other.total
    kinds = (
        (f"What is the total of all entries in the {account.name} account?", account.total),
        (f"How much was paid to {supplier} from the {account.name} account?", paid),
        (f"What is the largest amount of a single entry in the {account.name} account?", largest),
        (f"How much larger is the total of the {account.name} account than that of {other.name}?", difference),
    )
    return rng.choice(kinds)


def questions(seed: int) -> Iterator[tuple[str, str, int]]:
    """Endless companies, questions about their books and the answers, no two alike."""
    rng, asked = Random(seed), set[tuple[str, str]]()
    while True:
        company = rng.choice(COMPANIES)
        text, answer = question(rng, books(seed, company))
        if (company, text) not in asked:
            asked.add((company, text))
            yield company, text, answer
