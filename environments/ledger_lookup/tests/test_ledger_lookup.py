"""What the books, the questions and the tools promise."""

import re
from itertools import islice

import pytest
import verifiers.v1 as vf
from ledger_lookup.ledger import COMPANIES, books, questions
from ledger_lookup.server import LedgerServerConfig, LedgerToolset
from ledger_lookup.taskset import final_amount

TOOLS = LedgerToolset(LedgerServerConfig())
COMPANY = COMPANIES[0]


def test_books_are_the_same_whenever_they_are_opened():
    assert books(0, COMPANY) == books(0, COMPANY)


def test_seeds_and_companies_have_different_books():
    assert books(0, COMPANY) != books(1, COMPANY) != books(1, COMPANIES[1])


def test_account_numbers_and_names_are_unambiguous():
    for company in COMPANIES:
        accounts = books(0, company)
        assert len({account.number for account in accounts}) == len({account.name for account in accounts}) == 5


def test_the_same_seed_asks_the_same_questions():
    assert list(islice(questions(3), 100)) == list(islice(questions(3), 100))


def test_no_question_is_asked_twice():
    asked = [(company, question) for company, question, _ in islice(questions(0), 2000)]
    assert len(set(asked)) == len(asked)


def test_questions_give_no_number_away():
    assert not any(re.search(r"\d", company + question) for company, question, _ in islice(questions(0), 500))


def test_answers_are_too_many_to_guess():
    answers = [answer for _, _, answer in islice(questions(0), 500)]
    assert all(answer > 0 for answer in answers)
    assert max(answers.count(answer) for answer in answers) <= 3


def test_list_accounts_gives_numbers_and_names():
    lines = TOOLS.list_accounts(COMPANY).splitlines()
    assert lines == [f"{account.number}, {account.name}" for account in books(0, COMPANY)]


def test_list_entries_gives_every_entry_of_one_account():
    account = books(0, COMPANY)[2]
    lines = TOOLS.list_entries(COMPANY, account.number).splitlines()
    assert sum(int(line.split(", ")[2]) for line in lines) == account.total


def test_add_adds_and_subtracts():
    assert TOOLS.add([10, 5, -3]) == "12"


def test_unknown_companies_and_accounts_are_said_to_be_unknown():
    assert TOOLS.list_accounts("Nobody & Sons") == "There is no Nobody & Sons."
    assert TOOLS.list_entries(COMPANY, 1) == "No such account."


@pytest.mark.parametrize(
    "reply", ["<answer>1234</answer>", "<answer> $1,234.0 </answer>", "So <answer>1 234</answer>."]
)
def test_ways_to_give_an_amount(reply: str):
    assert final_amount(reply) == 1234


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "1234",
        "<answer>1234",
        "<answer>1234 euros</answer>",
        "<answer>-1234</answer>",
        "<answer>１２３４</answer>",
        "<answer>" + "9" * 5000 + "</answer>",
        "<answer>1234</answer><answer>1234</answer>",
        "<think><answer>1234</answer></think>",
    ],
)
def test_replies_without_one_amount(reply: str):
    assert final_amount(reply) is None


def test_the_tools_read_the_books_that_the_questions_are_about():
    config = vf.taskset_config_type("ledger_lookup").model_validate({"id": "ledger_lookup", "seed": 9})
    (toolset,) = type(vf.load_taskset(config)).toolsets(config)
    assert toolset.config.seed == 9
    assert toolset.server_name == "ledger"
