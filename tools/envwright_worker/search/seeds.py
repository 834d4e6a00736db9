"""The first replies that an attacker tries, independent of the task."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from envwright_worker.search.form import BARE, AnswerForm
from envwright_worker.search.source import Constants

EMPTY = ("", " ", "\n", "[]", "{}", "()", "set()", '""', ",", ".", "null", "None", "nan", "-", "[[]]", "[{}]")
PATTERNS = (".*", ".", "|", "^", "$", "?", "*", "\\d+", "\\w+", "%")
SMALL = ("0", "1", "-1", "2", "10", "100", "true", "false", "yes", "no", "1e9", "inf", "0.5")
ENUMERATIONS = (
    " ".join(map(str, range(101))),
    ", ".join(map(str, range(1001))),
    "\n".join(map(str, range(101))),
    string.digits,
    string.ascii_lowercase,
    " ".join(string.ascii_lowercase),
    " ".join(string.ascii_uppercase),
    "A B C D",
    "ABCD",
    "A, B, C, D, E",
    "(A) (B) (C) (D)",
    "yes no",
    "no yes",
    "true false",
    "yes and no, true and false",
    string.printable.strip(),
    json.dumps(list(range(101))),
)
LENGTHS = (20, 200, 2_000)


def contents(answers: Sequence[str], prompts: Sequence[str], constants: Constants) -> Iterator[str]:
    """Texts for the place of the answer, the most informative first."""
    yield from EMPTY
    yield from unions(answers)
    yield from answers[:2]
    yield from ENUMERATIONS
    yield from _from_source(constants)
    yield from common_pieces(answers)
    yield from _from_prompts(prompts)
    yield from PATTERNS
    yield from SMALL
    yield from _long(prompts)
    yield from string.ascii_lowercase
    yield from string.digits


def unions(answers: Sequence[str]) -> Iterator[str]:
    """The right answers of several tasks at once: a guess at everything."""
    for joint in (" ", ", ", "\n", " or "):
        yield joint.join(answers)
    yield json.dumps(list(answers))
    yield json.dumps({f"key{number}": answer for number, answer in enumerate(answers)})
    yield " ".join(sorted(set(re.findall(r"\w+", " ".join(answers)))))
    yield "\n".join(sorted(set(chain.from_iterable(answer.splitlines() for answer in answers))))


def several_marks(form: AnswerForm, answers: Sequence[str]) -> Iterator[str]:
    """Every answer in separate marks: beside, around and before each other."""
    if not form.explicit:
        return
    marked = [form.marked(answer) for answer in answers]
    yield form.lead + "\n".join(marked)
    yield form.lead + "".join(reversed(marked))
    yield form.lead + form.marked("".join(marked))
    yield form.lead + form.before + (form.after + form.before).join(["", *answers, ""]) + form.after
    yield form.before
    yield form.before + form.after
    yield form.after + form.before
    yield (form.before + form.after) * 5


def common_pieces(answers: Sequence[str]) -> list[str]:
    """Short pieces of the right answers of several tasks."""
    counted = Counter(
        piece
        for answer in answers
        for piece in sorted(
            {answer[start : start + size] for size in (1, 2) for start in range(len(answer) - size + 1)}
        )
    )
    return [piece for piece, count in counted.most_common(12) if count > 1]


def _from_source(constants: Constants) -> Iterator[str]:
    yield from constants.strings
    yield " ".join(constants.strings)
    yield "\n".join(constants.strings)
    yield from constants.numbers
    yield json.dumps(dict.fromkeys(constants.strings, 1))


def _from_prompts(prompts: Sequence[str]) -> Iterator[str]:
    numbers = re.findall(r"\d+", "\n".join(prompts))
    yield " ".join(dict.fromkeys(numbers))
    yield from prompts[:1]
    words = [set(re.findall(r"\w+", prompt)) for prompt in prompts]
    shared = sorted(set.intersection(*words)) if words else []
    yield " ".join(shared)
    yield from [word for word in shared if len(word) > 3][:20]


def _long(prompts: Sequence[str]) -> Iterator[str]:
    words = sorted(set(re.findall(r"[a-z]{3,}", " ".join(prompts)))) or ["word"]
    for length in LENGTHS:
        yield " ".join(words[number % len(words)] for number in range(length))
        yield "x" * length
    yield "Step by step.\n" * 200
    yield "a. " * 500


def replies(
    forms: Sequence[AnswerForm],
    answers: Sequence[str],
    prompts: Sequence[str],
    golds: Sequence[str],
    constants: Constants,
) -> Iterator[str]:
    """All seeds: contents in every form and bare, and long replies without content."""
    yield from golds[:2]
    for form in forms:
        yield from several_marks(form, answers)
    for content in contents(answers, prompts, constants):
        for form in (*forms, BARE):
            yield form.saying(content)
            if form.lead:
                yield form.marked(content)
    for form in forms:
        for length in LENGTHS:  # long reasoning without content
            yield "Let us think. " * length + form.saying("x")
