"""What the policies, the tickets and the reading of queues promise."""

from collections import Counter
from itertools import islice

import pytest
from ticket_routing.taskset import final_queue
from ticket_routing.tickets import Rule, Ticket, cases, route


def described(seed: int, count: int) -> list[tuple[object, ...]]:
    made = islice(cases(seed), count)
    return [(*(rule.text for rule in case.rules), case.ticket, case.queue) for case in made]


def test_the_same_seed_makes_the_same_cases():
    assert described(3, 100) == described(3, 100)


def test_no_case_is_made_twice():
    made = described(0, 1000)
    assert len(set(made)) == len(made)


def test_the_default_is_right_no_more_often_than_a_rule():
    places = Counter(case.queues.index(case.queue) for case in islice(cases(0), 1000))
    assert len(places) == 6
    assert max(places.values()) < 300


def test_the_first_rule_that_fits_decides():
    first, second = Rule("", "data", lambda ticket: ticket.seats > 5), Rule("", "legal", lambda _ticket: True)
    assert route([first, second], Ticket("Free", 9, "", ""), "sales") == "data"
    assert route([first, second], Ticket("Free", 2, "", ""), "sales") == "legal"
    assert route([first], Ticket("Free", 2, "", ""), "sales") == "sales"


@pytest.mark.parametrize(
    "reply", ["", "billing", "<queue>billing", "<queue>a</queue><queue>b</queue>", "<think><queue>data</queue></think>"]
)
def test_replies_without_one_queue(reply: str):
    assert final_queue(reply) is None


def test_small_and_capital_letters_are_the_same():
    assert final_queue("<think>sales?</think><queue> Billing\n</queue>") == "billing"
