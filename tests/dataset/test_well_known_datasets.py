"""Columns and answers as well-known datasets shape them, with made-up contents."""

from __future__ import annotations

from typing import Any

import pytest
from envwright.authoring.dataset.layout import example_of
from envwright.authoring.dataset.recognition import recognise

Rows = list[dict[str, Any]]
SHAPES: dict[str, tuple[Rows, str]] = {
    "mmlu": (
        [
            {
                "question": f"Q{i} about physics?",
                "subject": "physics",
                "choices": [f"w{i}", "x", "y", "z"],
                "answer": i % 4,
            }
            for i in range(24)
        ],
        "choice",
    ),
    "arc": (
        [
            {
                "id": f"M{i}",
                "question": f"Q{i} what?",
                "choices": {"text": ["a1", "b1", "c1", "d1"], "label": ["A", "B", "C", "D"]},
                "answerKey": "ABCD"[i % 4],
            }
            for i in range(24)
        ],
        "choice",
    ),
    "arc123": (
        [
            {
                "id": f"M{i}",
                "question": f"Q{i} what?",
                "choices": {"text": ["a1", "b1", "c1", "d1"], "label": ["1", "2", "3", "4"]},
                "answerKey": "1234"[i % 4],
            }
            for i in range(24)
        ],
        "choice",
    ),
    "boolq": (
        [
            {"question": f"is thing {i} a mammal", "passage": f"Thing {i} is ...", "answer": i % 3 == 0}
            for i in range(24)
        ],
        "boolean",
    ),
    "squad": (
        [
            {
                "id": str(i),
                "title": "T",
                "context": f"The town of Foo{i} was founded in {1900 + i}.",
                "question": f"When was Foo{i} founded?",
                "answers": {"text": [f"in {1900 + i}"], "answer_start": [3]},
            }
            for i in range(24)
        ],
        "text",
    ),
    "agnews": ([{"text": f"News item {i} says stuff", "label": i % 4} for i in range(24)], "label"),
    "math": (
        [
            {
                "problem": f"Find x{i}.",
                "level": "Level 2",
                "type": "Algebra",
                "solution": f"so $\\boxed{{\\frac{{{i}}}{{3}}}}$.",
            }
            for i in range(24)
        ],
        "latex",
    ),
    "triviaqa": (
        [
            {
                "question": f"Who wrote book {i}?",
                "question_id": f"t{i}",
                "answer": {"value": f"Author Name {i}", "aliases": ["A", "B"], "normalized_value": f"author {i}"},
            }
            for i in range(24)
        ],
        "text",
    ),
    "hellaswag": (
        [
            {"ind": i, "ctx": f"A man {i} goes to", "endings": ["a b", "c d", "e f", "g h"], "label": str(i % 4)}
            for i in range(24)
        ],
        "choice",
    ),
    "piqa": (
        [
            {"goal": f"To open jar {i}, you should", "sol1": f"turn it {i}", "sol2": "hit it", "label": i % 2}
            for i in range(24)
        ],
        "choice",
    ),
    "winogrande": (
        [
            {"sentence": f"The _ was big {i}.", "option1": "dog", "option2": "cat", "answer": "12"[i % 2]}
            for i in range(24)
        ],
        "choice",
    ),
    "strategyqa": (
        [
            {"qid": f"s{i}", "term": "x", "question": f"Could {i} fit?", "answer": bool(i % 2), "facts": ["a", "b"]}
            for i in range(24)
        ],
        "boolean",
    ),
    "snli": ([{"premise": f"A man {i} runs.", "hypothesis": "He moves.", "label": i % 3} for i in range(24)], "label"),
    "alpaca": (
        [
            {
                "instruction": f"Write about topic {i}",
                "input": "",
                "output": "Here is a long story about it that goes on and on with many words in it indeed.",
            }
            for i in range(24)
        ],
        "text",
    ),
    "aime": ([{"id": i, "problem": f"Find N{i}.", "answer": i * 37 % 999, "url": "x"} for i in range(24)], "number"),
    "medmcqa": (
        [
            {
                "id": f"u{i}",
                "question": f"Drug {i}?",
                "opa": "a x",
                "opb": "b x",
                "opc": "c x",
                "opd": "d x",
                "cop": i % 4,
                "choice_type": "single",
                "exp": "..",
                "subject_name": "P",
            }
            for i in range(24)
        ],
        "choice",
    ),
    "obqa": (
        [
            {
                "id": f"7-{i}",
                "question_stem": f"The sun {i} is",
                "choices": {"text": ["w", "x", "y", "z"], "label": ["A", "B", "C", "D"]},
                "answerKey": "ABCD"[i % 4],
            }
            for i in range(24)
        ],
        "choice",
    ),
    "race": (
        [
            {"article": "Long ..", "question": f"What {i}?", "options": ["p", "q", "r", "s"], "answer": "ABCD"[i % 4]}
            for i in range(24)
        ],
        "choice",
    ),
    "copa": (
        [
            {
                "premise": f"The man {i} fell.",
                "choice1": "He slipped.",
                "choice2": "He sang.",
                "question": "cause",
                "idx": i,
                "label": i % 2,
            }
            for i in range(24)
        ],
        "choice",
    ),
    "cola": ([{"sentence": f"The dog {i} barks.", "label": i % 2, "idx": i} for i in range(24)], "label"),
    "qa": ([{"q": f"What is {i} squared?", "a": i * i} for i in range(24)], "number"),
    "openai_ft": (
        [
            {
                "messages": [
                    {"role": "user", "content": f"Is {i} even?"},
                    {"role": "assistant", "content": "Yes" if i % 2 == 0 else "No"},
                ]
            }
            for i in range(24)
        ],
        "boolean",
    ),
    "prefer": (
        [
            {
                "prompt": f"Say hi {i}",
                "chosen": "Hello there my dear friend, how are you doing this fine day?",
                "rejected": "no",
            }
            for i in range(24)
        ],
        "text",
    ),
    "percent": ([{"question": f"What share is {i}?", "answer": f"{i}.5%"} for i in range(24)], "number"),
    "units": ([{"question": f"How long is {i}?", "answer": f"{i} cm"} for i in range(24)], "number"),
    "several units": (
        [{"question": f"How long is {i}?", "answer": f"{i} {'cm' if i % 2 else 'm'}"} for i in range(24)],
        "text",
    ),
    "sql": (
        [
            {
                "question": f"List users {i}",
                "context": "CREATE TABLE users (id int)",
                "answer": f"SELECT name FROM users WHERE id = {i}",
            }
            for i in range(24)
        ],
        "code",
    ),
    "dates": ([{"question": f"When {i}?", "answer": f"2020-01-{i + 1:02}"} for i in range(24)], "text"),
    "ner": (
        [
            {
                "text": f"Ann{i} met Bob in Rome",
                "entities": [{"type": "PER", "text": f"Ann{i}"}, {"type": "LOC", "text": "Rome"}],
            }
            for i in range(24)
        ],
        "json",
    ),
    "tags": ([{"title": f"Post {i} on things", "tags": ["a", "b"] if i % 2 else ["c"]} for i in range(24)], "list"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_recognise_well_known_datasets_returns_their_format(name: str):
    rows, form = SHAPES[name]
    found = recognise(list(enumerate(rows, start=1)))
    assert (found.layout.answer, found.unexplained) == (form, 0)
    assert example_of(rows[1], found.layout).question
