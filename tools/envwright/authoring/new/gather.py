"""Examples for a new environment: from a recognised dataset, or from the tool's own sample."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envwright.authoring.dataset.layout import AnswerFormat, CodeTest, Example, UnreadableExample, example_of
from envwright.authoring.dataset.recognition import Recognised, UnexplainedRow
from envwright.authoring.dataset.source import NumberedRow

SAMPLES = Path(__file__).parent / "samples"
MOST_TESTS = 20
"""The most tests of one program, because each costs time with every reply."""
HELD_OUT = "eval"
ONE_IN = 10
LEAST_HELD_OUT = 8
"""The least number of held-out examples: a comparison decides on 6 or more (`statistics/before_after.py`)."""
FEWEST_TO_DIVIDE = 4 * LEAST_HELD_OUT
"""The least number of different examples for an evaluation split: at most a quarter is held out."""


@dataclass
class Gathered:
    """Examples by split, and omitted rows."""

    splits: dict[str, list[Example]] = field(default_factory=dict)
    unreadable: list[UnexplainedRow] = field(default_factory=list)
    repeated: int = 0
    """Rows whose question occurred before, in the same split or in an earlier one."""


def gather(rows: Mapping[str, Sequence[NumberedRow]], found: Recognised) -> Gathered:
    """Every row that can be read, each question once; training rows before those for evaluation."""
    gathered = Gathered()
    seen: set[tuple[str, tuple[str, ...], str]] = set()
    for split in sorted(rows, key=lambda name: name != "train"):
        examples = []
        for number, row in rows[split]:
            try:
                example = example_of(row, found.layout)
            except UnreadableExample as error:
                gathered.unreadable.append(UnexplainedRow(number, "", f"{split}: {error}"))
                continue
            asked = (example.question, example.choices, example.document)
            if asked in seen:
                gathered.repeated += 1
                continue
            seen.add(asked)
            examples.append(_bounded(example))
        if examples:
            gathered.splits[split] = examples
    return gathered


def with_held_out(splits: Mapping[str, list[Example]]) -> dict[str, list[Example]]:
    """The same splits; of a single one, a tenth is held out for evaluation, and at least what a comparison needs."""
    if len(splits) != 1:
        return dict(splits)
    [(name, examples)] = splits.items()
    if len(examples) < FEWEST_TO_DIVIDE or name == HELD_OUT:
        return dict(splits)
    one_in = min(ONE_IN, len(examples) // LEAST_HELD_OUT)
    kept = [example for number, example in enumerate(examples, start=1) if number % one_in]
    return {name: kept, HELD_OUT: examples[one_in - 1 :: one_in]}


def _bounded(example: Example) -> Example:
    """An example whose answer is one text or a list of single lines, and whose tests are few."""
    answer: str | list[str] = example.answer
    if isinstance(answer, list):
        answer = [" ".join(element.split()) for element in answer]
    return replace(example, answer=answer, tests=example.tests[:MOST_TESTS])


def sample(answer: AnswerFormat) -> list[Example]:
    """The first examples of a new environment without data."""
    rows = [json.loads(line) for line in (SAMPLES / f"{answer}.jsonl").read_text("utf-8").splitlines()]
    return [
        Example(
            row["question"],
            row["answer"],
            tuple(row.get("choices", ())),
            tests=tuple(CodeTest(**test) for test in row.get("tests", ())),
        )
        for row in rows
    ]


def words_of(answer: AnswerFormat, examples: Sequence[Example]) -> tuple[str, ...]:
    """The labels, or the two words of a boolean, as the examples use them."""
    used = {str(example.answer) for example in examples}
    if answer == "label":
        return tuple(sorted(used))
    return (("true", "false") if used & {"true", "false"} else ("yes", "no")) if answer == "boolean" else ()
