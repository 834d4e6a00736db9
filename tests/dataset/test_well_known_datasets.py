"""Columns and answers as well-known datasets shape them, with made-up contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from envwright.authoring.dataset.layout import example_of
from envwright.authoring.dataset.recognition import recognise

Row = dict[str, Any]
SHAPES: dict[str, tuple[Callable[[int], Row], str]] = {  # row by its number, format
    "mmlu": (
        lambda i: {"question": f"Q{i} about physics?", "subject": "physics", "choices": [f"w{i}", "x", "y", "z"],
                   "answer": i % 4}, "choice",
    ),
    "arc": (
        lambda i: {"id": f"M{i}", "question": f"Q{i} what?",
                   "choices": {"text": ["a1", "b1", "c1", "d1"], "label": ["A", "B", "C", "D"]},
                   "answerKey": "ABCD"[i % 4]}, "choice",
    ),
    "arc123": (
        lambda i: {"id": f"M{i}", "question": f"Q{i} what?",
                   "choices": {"text": ["a1", "b1", "c1", "d1"], "label": ["1", "2", "3", "4"]},
                   "answerKey": "1234"[i % 4]}, "choice",
    ),
    "boolq": (
        lambda i: {"question": f"is thing {i} a mammal", "passage": f"Thing {i} is ...",
                   "answer": i % 3 == 0}, "boolean",
    ),
    "squad": (
        lambda i: {"id": str(i), "title": "T", "context": f"The town of Foo{i} was founded in {1900 + i}.",
                   "question": f"When was Foo{i} founded?",
                   "answers": {"text": [f"in {1900 + i}"], "answer_start": [3]}}, "text",
    ),
    "agnews": (lambda i: {"text": f"News item {i} says stuff", "label": i % 4}, "label"),
    "math": (
        lambda i: {"problem": f"Find x{i}.", "level": "Level 2", "type": "Algebra",
                   "solution": f"so $\\boxed{{\\frac{{{i}}}{{3}}}}$."}, "latex",
    ),
    "triviaqa": (
        lambda i: {"question": f"Who wrote book {i}?", "question_id": f"t{i}",
                   "answer": {"value": f"Author Name {i}", "aliases": ["A", "B"], "normalized_value": f"author {i}"}},
        "text",
    ),
    "hellaswag": (
        lambda i: {"ind": i, "ctx": f"A man {i} goes to", "endings": ["a b", "c d", "e f", "g h"],
                   "label": str(i % 4)}, "choice",
    ),
    "piqa": (
        lambda i: {"goal": f"To open jar {i}, you should", "sol1": f"turn it {i}", "sol2": "hit it",
                   "label": i % 2}, "choice",
    ),
    "winogrande": (
        lambda i: {"sentence": f"The _ was big {i}.", "option1": "dog", "option2": "cat",
                   "answer": "12"[i % 2]}, "choice",
    ),
    "strategyqa": (
        lambda i: {"qid": f"s{i}", "term": "x", "question": f"Could {i} fit?", "answer": bool(i % 2),
                   "facts": ["a", "b"]}, "boolean",
    ),
    "snli": (lambda i: {"premise": f"A man {i} runs.", "hypothesis": "He moves.", "label": i % 3}, "label"),
    "alpaca": (
        lambda i: {"instruction": f"Write about topic {i}", "input": "",
                   "output": "Here is a long story about it that goes on and on with many words in it indeed."}, "text",
    ),
    "aime": (lambda i: {"id": i, "problem": f"Find N{i}.", "answer": i * 37 % 999, "url": "x"}, "number"),
    "medmcqa": (
        lambda i: {"id": f"u{i}", "question": f"Drug {i}?", "opa": "a x", "opb": "b x", "opc": "c x", "opd": "d x",
                   "cop": i % 4, "choice_type": "single", "exp": "..", "subject_name": "P"}, "choice",
    ),
    "obqa": (
        lambda i: {"id": f"7-{i}", "question_stem": f"The sun {i} is",
                   "choices": {"text": ["w", "x", "y", "z"], "label": ["A", "B", "C", "D"]},
                   "answerKey": "ABCD"[i % 4]}, "choice",
    ),
    "race": (
        lambda i: {"article": "Long ..", "question": f"What {i}?", "options": ["p", "q", "r", "s"],
                   "answer": "ABCD"[i % 4]}, "choice",
    ),
    "copa": (
        lambda i: {"premise": f"The man {i} fell.", "choice1": "He slipped.", "choice2": "He sang.",
                   "question": "cause", "idx": i, "label": i % 2}, "choice",
    ),
    "cola": (lambda i: {"sentence": f"The dog {i} barks.", "label": i % 2, "idx": i}, "label"),
    "qa": (lambda i: {"q": f"What is {i} squared?", "a": i * i}, "number"),
    "openai_ft": (
        lambda i: {"messages": [{"role": "user", "content": f"Is {i} even?"},
                                {"role": "assistant", "content": "Yes" if i % 2 == 0 else "No"}]}, "boolean",
    ),
    "prefer": (
        lambda i: {"prompt": f"Say hi {i}", "chosen": "Hello there my dear friend, how are you doing this fine day?",
                   "rejected": "no"}, "text",
    ),
    "percent": (lambda i: {"question": f"What share is {i}?", "answer": f"{i}.5%"}, "number"),
    "units": (lambda i: {"question": f"How long is {i}?", "answer": f"{i} cm"}, "number"),
    "several units": (lambda i: {"question": f"How long is {i}?", "answer": f"{i} {'cm' if i % 2 else 'm'}"}, "text"),
    "sql": (
        lambda i: {"question": f"List users {i}", "context": "CREATE TABLE users (id int)",
                   "answer": f"SELECT name FROM users WHERE id = {i}"}, "code",
    ),
    "dates": (lambda i: {"question": f"When {i}?", "answer": f"2020-01-{i + 1:02}"}, "text"),
    "ner": (
        lambda i: {"text": f"Ann{i} met Bob in Rome",
                   "entities": [{"type": "PER", "text": f"Ann{i}"}, {"type": "LOC", "text": "Rome"}]}, "json",
    ),
    "tags": (lambda i: {"title": f"Post {i} on things", "tags": ["a", "b"] if i % 2 else ["c"]}, "list"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_recognise_well_known_datasets_returns_their_format(name: str):
    row, form = SHAPES[name]
    found = recognise([(i + 1, row(i)) for i in range(24)])
    assert (found.layout.answer, found.unexplained) == (form, 0)
    assert example_of(row(1), found.layout).question
