"""Which column is the question, which the answer, and what the others are to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from envops.judge.dataset.values import as_letter, is_missing, text_of, words

Row = Mapping[str, Any]

QUESTION = (
    "question", "problem", "prompt", "query", "instruction", "q", "question_text", "problem_statement", "stem", "task",
    "ctx", "input", "inputs", "sentence", "statement", "claim", "text", "premise", "review", "utterance", "content",
    "user", "source",
)  # fmt: skip
ANSWER = (
    "answer", "final_answer", "correct_answer", "answerkey", "answer_key", "gold", "expected_answer", "expected", "a",
    "solution", "target", "label", "ground_truth", "reference", "reference_answer", "canonical_solution", "answers",
    "correct", "output", "response", "completion", "result", "gold_answer", "cop", "class", "category", "sentiment",
    "intent", "code", "correct_option", "answer_idx", "labels", "targets", "assistant", "truth", "verdict", "chosen",
)  # fmt: skip
CONTEXT = (
    "context", "passage", "document", "article", "background", "paragraph", "story", "support", "hypothesis", "body",
    "input", "facts", "table", "schema",
)  # fmt: skip
CHOICES = ("choices", "options", "endings", "candidates", "alternatives", "multiple_choice_targets", "answer_choices")
TESTS = ("test_list", "tests", "test", "test_cases", "unit_tests", "input_output", "assertions", "asserts", "examples")
CONVERSATION = ("messages", "conversations", "conversation", "dialog", "dialogue", "chat", "turns")
TOOLS = ("tools", "functions", "available_tools", "function_schemas")
IDENTITY = ("id", "idx", "index", "uid", "uuid", "qid", "task_id", "question_id", "source_file", "url", "split")
_STEM = "option|choice|opt|op|ending|ans|answer|sol|solution|alternative|candidate"
_OPTION = re.compile(rf"(?:(?:{_STEM})[ _]?)?([a-j]|\d{{1,2}})", re.IGNORECASE)
_WRONG_OPTION = re.compile(r"(?:distractor|incorrect|wrong)(?:[ _]?answers?)?[ _]?\d*", re.IGNORECASE)


@dataclass(frozen=True)
class Roles:
    """Names of columns; empty where no column has the role."""

    question: str = ""
    answer: str = ""
    context: str = ""
    choices: tuple[str, ...] = ()
    """One column with all of them, or one for each."""
    wrong_choices: tuple[str, ...] = ()
    """Columns with wrong answers only: the choices are these and the answer."""
    tests: str = ""
    entry_point: str = ""
    conversation: str = ""
    tools: str = ""
    why: Mapping[str, str] | None = None
    """Role → what spoke for the column."""


def assign(rows: Sequence[Row], question: str = "", answer: str = "") -> Roles:
    """The roles of the columns of these rows; `question` and `answer` are taken as said.

    Names decide first, as authors of datasets choose them to be understood. Where no name is
    known, the question is the column with the most to read and the answer what is left.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    filled = {name: [row[name] for row in rows if not is_missing(row.get(name))] for name in columns}
    filled = {name: values for name, values in filled.items() if values}
    conversation = _named(filled, CONVERSATION, _is_conversation)
    choices = _choice_columns({name: filled[name] for name in filled if name not in (question, answer)})
    wrong = tuple(name for name in filled if _WRONG_OPTION.fullmatch(name))
    tests = _named(filled, TESTS, lambda values: any(isinstance(one, (list, dict, str)) for one in values))
    entry_point = "entry_point" if "entry_point" in filled else ""
    tools = _named(filled, TOOLS, lambda _: True)
    taken = {*choices, *wrong, tests, entry_point, conversation, tools}
    free = {name: values for name, values in filled.items() if name not in taken}
    if not answer:
        answer = _named({name: free[name] for name in free if name != question}, ANSWER, lambda _: True)
    if not question:
        question = _question(free, answer)
    if not answer and not conversation:
        answer = _what_is_left(free, question)
    context = _named({name: free[name] for name in free if name not in (question, answer)}, CONTEXT, _is_text)
    if conversation and (not question or not answer):
        question = answer = context = ""
    elif conversation:
        conversation = ""
    return Roles(question, answer, context, choices, wrong, tests, entry_point, conversation, tools)


def _named(filled: Mapping[str, list[Any]], names: Iterable[str], fits: Any) -> str:
    plain = {_plain(name): name for name in reversed(list(filled))}
    return next((plain[name] for name in names if name in plain and fits(filled[plain[name]])), "")


def _plain(name: str) -> str:
    """`expectedAnswer`, `Expected Answer` and `expected_answer` are one name."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\W_]+", "_", spaced).strip("_").lower()


def _is_text(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_conversation(values: Sequence[Any]) -> bool:
    return all(isinstance(value, list) and value and isinstance(value[0], Mapping) for value in values)


def _question(free: Mapping[str, list[Any]], answer: str) -> str:
    """By name, else the text column that says most and hardly repeats itself."""
    texts = {name: values for name, values in free.items() if name != answer and _is_text(values)}
    named = _named(texts, QUESTION, lambda _: True)
    if named:
        return named
    wordy = {name: median(words(value) for value in values) for name, values in texts.items()}
    various = {name for name, values in texts.items() if len(set(values)) > len(values) / 2}
    candidates = [name for name in texts if name in various and _plain(name) not in IDENTITY]
    asking = {name: sum("?" in value for value in texts[name]) / len(texts[name]) for name in candidates}
    return max(candidates, key=lambda name: (asking[name] > 0.5, wordy[name]), default="")


def _what_is_left(free: Mapping[str, list[Any]], question: str) -> str:
    """The one column that could be an answer: neither the question nor numbered through, and well filled."""
    left = [name for name in free if name != question and _plain(name) not in IDENTITY]
    left = [name for name in left if not _numbered(free[name])] or left
    short = sorted(left, key=lambda name: median(len(text_of(value)) for value in free[name]))
    return short[0] if short else ""


def _numbered(values: Sequence[Any]) -> bool:
    """Whether values only count the rows."""
    whole = [int(value) for value in values if not isinstance(value, bool) and str(value).strip().isdigit()]
    return len(whole) == len(values) > 2 and all(b - a == 1 for a, b in pairwise(whole))


def _choice_columns(filled: Mapping[str, list[Any]]) -> tuple[str, ...]:
    for name, values in filled.items():
        if _plain(name) in CHOICES and all(isinstance(value, (list, dict)) for value in values):
            return (name,)
        if _plain(name) in CHOICES and any(isinstance(value, str) and value.strip()[:1] in "[{(" for value in values):
            return (name,)
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in filled:
        found = _OPTION.fullmatch(name.strip())
        if found:
            stem = name[: found.start(1)].lower()
            groups.setdefault(stem, []).append((found[1].lower(), name))
    for members in groups.values():
        marks = sorted(mark for mark, _ in members)
        if len(marks) > 1 and _follow_each_other(marks) and not all(_only_letters(filled[name]) for _, name in members):
            return tuple(name for _, name in sorted(members))
    return ()


def _follow_each_other(marks: Sequence[str]) -> bool:
    """a, b, c or 1, 2, 3 or 0, 1, 2."""
    if marks[0] not in ("a", "0", "1"):
        return False
    codes = [int(mark) if mark.isdigit() else ord(mark) for mark in marks]
    return all(b - a == 1 for a, b in pairwise(codes))


def _only_letters(values: Sequence[Any]) -> bool:
    return all(as_letter(value) for value in values)
