"""Routing policies and tickets; which queue a ticket belongs to follows from both."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
TOPICS: dict[str, list[str]] = WORDS["topics"]


class Ticket(NamedTuple):
    plan: str
    seats: int
    topic: str
    message: str


class Rule(NamedTuple):
    text: str
    queue: str
    fits: Callable[[Ticket], bool]


class Case(NamedTuple):
    rules: list[Rule]
    queues: list[str]
    ticket: Ticket
    queue: str


def ticket(rng: Random) -> Ticket:
    topic = rng.choice(list(TOPICS))
    return Ticket(rng.choice(WORDS["plans"]), rng.randint(1, 400), topic, rng.choice(TOPICS[topic]))


def rule(rng: Random, queue: str) -> Rule:
    topic, plan, seats = rng.choice(list(TOPICS)), rng.choice(WORDS["plans"]), rng.randrange(20, 300, 10)
    kinds = (
        (f"about {topic}", lambda ticket: ticket.topic == topic),
        (f"about {topic} from customers on the {plan} plan", lambda ticket: ticket[::2] == (plan, topic)),
        (f"about {topic} from customers with more than {seats} seats",
         lambda ticket: ticket.topic == topic and ticket.seats > seats),
        (f"from customers on the {plan} plan with fewer than {seats} seats",
         lambda ticket: ticket.plan == plan and ticket.seats < seats),
    )  # fmt: skip
    text, fits = rng.choice(kinds)
    return Rule(f"Tickets {text} go to {queue}.", queue, fits)


def route(rules: list[Rule], ticket: Ticket, default: str) -> str:
    """The queue of the first rule that fits."""
    return next((rule.queue for rule in rules if rule.fits(ticket)), default)


def cases(seed: int) -> Iterator[Case]:
    """Endless policies and tickets, no two alike; each queue of a policy is the right one equally often."""
    rng, told = Random(seed), set[tuple[str, ...]]()
    while True:
        queues = rng.sample(WORDS["queues"], 6)
        rules, wanted = [rule(rng, queue) for queue in queues[1:]], rng.choice(queues)
        found = next((one for one in (ticket(rng) for _ in range(200)) if route(rules, one, queues[0]) == wanted), None)
        if found is not None and (key := (*(made.text for made in rules), found.message)) not in told:
            told.add(key)
            yield Case(rules, queues, found, wanted)
