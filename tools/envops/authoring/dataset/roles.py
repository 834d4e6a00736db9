"""Which column is the question, which the answer, and what the others are to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from envops.authoring.dataset.columns import Columns, Row, columns_of, ending_with, fields_of, named, plain
from envops.authoring.dataset.names import (
    ANSWER,
    CHOICES,
    CONTEXT,
    CONVERSATION,
    DESCRIBES,
    FIELD_ANSWER,
    LAST_WORD,
    NEVER_ANSWERS,
    ONE_OPTION,
    PAIRED,
    QUESTION,
    SPEAKER,
    TESTS,
    TOOLS,
    WRONG_OPTION,
)
from envops.authoring.dataset.values import as_code, as_letter, flagged, text_of, words

__all__ = ["Roles", "Row", "assign", "is_conversation"]


@dataclass(frozen=True)
class Roles:
    """Names of columns; empty where no column has the role. `reward.truth` is a field of the column `reward`."""

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
    filled = columns_of(rows)
    conversation = named(filled, CONVERSATION, is_conversation)
    choices = _choice_columns({name: filled[name] for name in filled if name not in (question, answer)})
    wrong = tuple(name for name in filled if WRONG_OPTION.fullmatch(name))
    tests = named(filled, TESTS, lambda values: any(isinstance(one, (list, dict, str)) for one in values))
    entry_point = "entry_point" if "entry_point" in filled else ""
    tools = named(filled, TOOLS)
    marked = next((name for name in filled if all(flagged(value) for value in filled[name])), "")
    if marked and not wrong and not answer:
        choices, answer = (marked,), marked
    taken = {*choices, *wrong, tests, entry_point, conversation, tools}
    free = {name: values for name, values in filled.items() if name not in taken}
    answer = answer or _answer({name: free[name] for name in free if name != question})
    question = question or _question(free, answer)
    if not answer and not conversation:
        within = question.rpartition(".")[0]
        left = {n: v for n, v in fields_of(free).items() if n.rpartition(".")[0] == within} if within else free
        answer = _what_is_left(left, question, repeated=bool(tests))
    first, second = _pair(free, question)
    question = second or question
    context = first or named({n: v for n, v in free.items() if n not in (question, answer)}, CONTEXT, _is_text)
    if conversation and (not question or not answer):
        question = answer = context = ""
    elif conversation:
        conversation = ""
    return Roles(question, answer, context, choices, wrong, tests, entry_point, conversation, tools)


def is_conversation(values: Sequence[Any]) -> bool:
    """Whether values are lists of turns, each a record that names who speaks."""
    return all(
        isinstance(value, list) and value and isinstance(value[0], Mapping) and not SPEAKER.isdisjoint(value[0])
        for value in values
    )


def _is_text(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _answer(free: Columns) -> str:
    """By name; else the field of a record by its name; else the only column with programs."""
    found = named(free, ANSWER) or ending_with(free, LAST_WORD["answer"]) or named(fields_of(free), FIELD_ANSWER)
    programs = (
        name
        for name, values in free.items()
        if not NEVER_ANSWERS.fullmatch(plain(name)) and all(as_code(value) is not None for value in values)
    )
    return found or next(programs, "")


def _question(free: Columns, answer: str) -> str:
    """By name, else the text column that says most and hardly repeats itself."""
    texts = {
        name: values
        for name, values in free.items()
        if name != answer and (_is_text(values) or is_conversation(values))
    }
    fields = {name: values for name, values in fields_of(free).items() if name != answer and _is_text(values)}
    found = named(texts, QUESTION) or ending_with(texts, LAST_WORD["question"]) or named(fields, QUESTION)
    return found or _says_most(texts) or _says_most(fields)


def _says_most(texts: Columns) -> str:
    various = {name for name, values in texts.items() if len({text_of(value) for value in values}) > len(values) / 2}
    candidates = [name for name in texts if name in various and not NEVER_ANSWERS.fullmatch(plain(name))]
    wordy = {name: median(words(text_of(value)) for value in texts[name]) for name in candidates}
    asking = {name: sum("?" in value for value in texts[name]) / len(texts[name]) for name in candidates}
    return max(candidates, key=lambda name: (asking[name] > 0.5, wordy[name]), default="")


def _what_is_left(free: Columns, question: str, *, repeated: bool) -> str:
    """The one column that could be an answer: no key, not numbered through, not the same in every row, and short.

    What describes a question is one where nothing else is left, unless the rows have tests and miss their program.
    """
    left = [name for name in free if name != question and not NEVER_ANSWERS.fullmatch(plain(name))]
    left = [name for name in left if not _always_the_same(free[name]) and plain(name) not in CONTEXT]
    left = [name for name in left if not _numbered(free[name])] or [name for name in left if plain(name) != "key"]
    telling = [name for name in left if not DESCRIBES.fullmatch(plain(name))]
    described = [] if repeated else [name for name in left if _comes_again(free[name])]
    short = sorted(telling or described, key=lambda name: median(len(text_of(value)) for value in free[name]))
    return short[0] if short else ""


def _pair(free: Columns, question: str) -> tuple[str, str]:
    """The two columns of a numbered pair that the question is one of: the second text is read after the first."""
    found = PAIRED.fullmatch(question)
    first, second = (f"{found[1]}{number}" for number in "12") if found else ("", "")
    return (first, second) if first in free and second in free else ("", "")


def _numbered(values: Sequence[Any]) -> bool:
    """Whether values only count the rows, as keys do."""
    whole = [int(value) for value in values if not isinstance(value, bool) and str(value).strip().isdigit()]
    return len(whole) == len(values) > 2 and all(b > a for a, b in pairwise(whole))


def _always_the_same(values: Sequence[Any]) -> bool:
    return len(values) > 2 and len({text_of(value) for value in values}) == 1


def _comes_again(values: Sequence[Any]) -> bool:
    return len({text_of(value) for value in values}) * 2 <= len(values)


def _choice_columns(filled: Columns) -> tuple[str, ...]:
    for name, values in filled.items():
        if plain(name) in CHOICES and all(isinstance(value, (list, dict)) for value in values):
            return (name,)
        if plain(name) in CHOICES and any(isinstance(value, str) and value.strip()[:1] in "[{(" for value in values):
            return (name,)
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in filled:
        found = ONE_OPTION.fullmatch(name.strip())
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
