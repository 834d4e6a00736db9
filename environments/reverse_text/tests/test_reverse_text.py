"""What the texts and the measure of similarity promise."""

import time
from itertools import islice

import pytest
import verifiers.v1 as vf
from reverse_text.similarity import edit_distance, similarity
from reverse_text.taskset import final_answer
from reverse_text.texts import texts


def test_the_same_seed_makes_the_same_texts():
    assert list(islice(texts(3, 12), 100)) == list(islice(texts(3, 12), 100))


def test_another_seed_makes_other_texts():
    assert len(set(islice(texts(1, 12), 300)) & set(islice(texts(2, 12), 300))) < 3


def test_no_text_comes_twice():
    made = list(islice(texts(0, 12), 1000))
    assert len(set(made)) == len(made)


def test_no_text_is_longer_than_asked_for():
    assert {len(text.split()) for text in islice(texts(0, 5), 300)} == {2, 3, 4, 5}


def test_copying_a_text_earns_nothing():
    assert all(similarity(text, text[::-1]) == 0.0 for text in islice(texts(0, 12), 300))


def test_texts_can_be_put_between_tags():
    assert all(text == text.strip() and "<" not in text and text.isascii() for text in islice(texts(0, 12), 300))


@pytest.mark.parametrize(
    ("a", "b", "distance"), [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2)]
)
def test_edit_distance(a: str, b: str, distance: int):
    assert edit_distance(a, b) == edit_distance(b, a) == distance


@pytest.mark.parametrize(
    ("text", "value"),
    [("abcdefgh", 1.0), ("abcdefgx", 0.75), ("abcdefg", 0.75), ("abcdefghi", 0.75), ("abcdwxyz", 0.0), ("", 0.0)],
)
def test_each_edit_costs_the_same(text: str, value: float):
    assert similarity(text, "abcdefgh") == value


def test_repeating_a_frequent_letter_earns_nothing():
    assert all(similarity("e" * len(text), text[::-1]) == 0.0 for text in islice(texts(0, 12), 300))


def test_saying_the_right_text_twice_earns_nothing():
    assert similarity("abcdefghabcdefgh", "abcdefgh") == 0.0


def test_a_long_reply_is_scored_at_once():
    start = time.perf_counter()
    assert similarity("x" * 200_000, "abcdefgh" * 10) == 0.0
    assert time.perf_counter() - start < 0.1


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "cba",
        "<reversed_text>cba",
        "</reversed_text>cba<reversed_text>",
        "<reversed_text>cba</reversed_text><reversed_text>cba</reversed_text>",
        "<think><reversed_text>cba</reversed_text></think>",
        "<think><reversed_text>cba</reversed_text>",
    ],
)
def test_replies_without_one_final_answer(reply: str):
    assert final_answer(reply) is None


def test_the_config_decides_how_many_texts_there_are():
    config = vf.taskset_config_type("reverse_text").model_validate({"id": "reverse_text", "num_tasks": 7, "longest": 2})
    tasks = list(vf.load_taskset(config))
    assert [task.data.answer for task in tasks] == [task.data.text[::-1] for task in tasks]
    assert len(tasks) == 7
