"""Facts and rules about somebody, and a statement that follows from them or does not."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

NAMES = ("Ada", "Bruno", "Cleo", "Dario", "Edda", "Falk", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Levi")
QUALITIES = (
    "agile", "bold", "calm", "clever", "curious", "eager", "fair", "frank", "gentle", "happy", "honest", "humble",
    "kind", "lively", "loyal", "modest", "noble", "patient", "polite", "proud", "quick", "quiet", "shy", "steady",
)  # fmt: skip

Rule = tuple[frozenset[str], str]  # whoever has all of these qualities has that one too


class World(NamedTuple):
    text: str
    statement: str
    steps: int
    follows: bool


def consequences(facts: Iterable[str], rules: Iterable[Rule]) -> set[str]:
    """All qualities that follow, the facts themselves included."""
    known, rules = set(facts), list(rules)
    while new := {conclusion for conditions, conclusion in rules if conditions <= known} - known:
        known |= new
    return known


def written(name: str, facts: list[str], rules: list[Rule]) -> str:
    said = [f"{name} is {quality}." for quality in facts]
    said += [f"Whoever is {' and '.join(sorted(conditions))} is {conclusion}." for conditions, conclusion in rules]
    return "\n".join(said)


def world(rng: Random) -> World:
    """A chain of rules that holds, as many that lack a condition, and a statement about the end of one of them."""
    name, steps = rng.choice(NAMES), rng.randint(1, 5)
    first, second, never, *others = rng.sample(QUALITIES, 3 + 2 * steps)
    facts, rules, known, doubtful = [first, second], list[Rule](), [first, second], [never]
    for reached, missed in zip(others[:steps], others[steps:], strict=True):
        rules.append((frozenset({known[-1], rng.choice(known)}), reached))
        rules.append((frozenset({doubtful[-1], rng.choice(known)}), missed))
        known.append(reached)
        doubtful.append(missed)
    rng.shuffle(rules)
    asked = rng.choice((known, doubtful))[-1]
    return World(written(name, facts, rules), f"{name} is {asked}", steps, asked in consequences(facts, rules))


def worlds(seed: int) -> Iterator[World]:
    """Endless worlds, no two alike; about every second statement follows."""
    rng, told = Random(seed), set[str]()
    while True:
        made = world(rng)
        if made.text not in told:
            told.add(made.text)
            yield made
