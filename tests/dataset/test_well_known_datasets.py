"""Columns and answers as well-known datasets shape them, with made-up contents."""

from __future__ import annotations

from typing import Any

import pytest
from envwright.authoring.dataset.layout import example_of
from envwright.authoring.dataset.recognition import recognise

Rows = list[dict[str, Any]]
SHAPES: dict[str, tuple[Rows, str]] = {
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
    "cola": ([{"sentence": f"The dog {i} barks.", "label": i % 2, "idx": i} for i in range(24)], "label"),
    "qa": ([{"q": f"What is {i} squared?", "a": i * i} for i in range(24)], "number"),
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
    "several units": (
        [{"question": f"How long is {i}?", "answer": f"{i} {'cm' if i % 2 else 'm'}"} for i in range(24)],
        "text",
    ),
    "tags": ([{"title": f"Post {i} on things", "tags": ["a", "b"] if i % 2 else ["c"]} for i in range(24)], "list"),
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
}


@pytest.mark.parametrize("name", SHAPES)
def test_recognise_well_known_datasets_returns_their_format(name: str):
    rows, form = SHAPES[name]
    found = recognise(list(enumerate(rows, start=1)))
    assert (found.layout.answer, found.unexplained) == (form, 0)
    assert example_of(rows[1], found.layout).question
