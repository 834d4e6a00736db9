"""What the questions, the parser and the rewards promise."""

import re
from datetime import date
from itertools import islice

import pytest
from date_arithmetic import load_environment
from date_arithmetic.questions import questions
from date_arithmetic.rewards import FinalAnswerParser, correct_answer, format_reward

PARSER = FinalAnswerParser()


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_the_same_seed_asks_the_same_questions():
    assert list(islice(questions(3, "train"), 100)) == list(islice(questions(3, "train"), 100))


def test_no_question_is_asked_twice():
    asked = [text for text, _ in islice(questions(0, "train"), 3000)]
    assert len(set(asked)) == len(asked)


def test_no_seed_trains_on_a_question_of_the_evaluation():
    held_out = {text for seed in range(5) for text, _ in islice(questions(seed, "eval"), 500)}
    assert not any(text in held_out for seed in range(5) for text, _ in islice(questions(seed, "train"), 2000))


def test_working_days_end_on_a_working_day():
    found = [day for text, day in islice(questions(0, "train"), 2000) if "working days" in text]
    assert found
    assert all(day.weekday() < 5 for day in found)


def test_a_month_too_short_ends_on_its_last_day():
    found = [
        (text, day)
        for text, day in islice(questions(0, "train"), 3000)
        if "months after" in text and day.day != int(re.search(r"after (\d+)", text)[1])
    ]
    assert found
    assert all((date.fromordinal(day.toordinal() + 1)).day == 1 for _, day in found)


def test_no_question_shows_its_answer():
    assert not any(day.isoformat() in text for text, day in islice(questions(0, "train"), 1000))


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "2024-02-29",
        "<answer>2024-02-29",
        "<answer>29 February 2024</answer>",
        "<answer>2024-02-29</answer><answer>2024-02-29</answer>",
        "<think><answer>2024-02-29</answer></think>",
        "<think><answer>2024-02-29</answer>",
        "<think>a</think><answer>2023-03-01</answer><think>b</think><answer>2024-02-29</answer>",
        "<answer>" + "9" * 5000 + "</answer>",
    ],
)
def test_replies_without_one_final_date_earn_nothing(reply: str):
    assert correct_answer(said(reply), "2024-02-29", PARSER) == 0.0
    assert format_reward(said(reply), PARSER) == 0.0


def test_a_right_date_earns_both():
    reply = said(f"{PARSER.format(think='It is a leap year.', answer='2024-02-29')}\n")
    assert correct_answer(reply, "2024-02-29", PARSER) == 1.0
    assert format_reward(reply, PARSER) == 1.0


@pytest.mark.parametrize(
    "reply",
    [
        "<answer>2024-02-29</answer>",
        "Hello. <think>a</think><answer>2024-02-29</answer>",
        "<think>a</think> so <answer>2024-02-29</answer>",
        "<think>a</think><answer>2024-02-29</answer>.",
        "<think>a <answer>2024</answer></think><answer>2024-02-29</answer>",
    ],
)
def test_a_right_date_in_another_form_earns_only_the_answer(reply: str):
    assert correct_answer(said(reply), "2024-02-29", PARSER) == 1.0
    assert format_reward(said(reply), PARSER) == 0.0


def test_only_the_last_message_counts():
    assert correct_answer(said("<answer>2024-02-29</answer>") + said("Never mind."), "2024-02-29", PARSER) == 0.0


def test_the_arguments_decide_how_many_questions_there_are():
    env = load_environment(num_examples=20, num_eval=5, seed=1)
    train, held_out = env.get_dataset(), env.get_eval_dataset()
    assert (len(train), len(held_out)) == (20, 5)
    assert not set(train["question"]) & set(held_out["question"])
