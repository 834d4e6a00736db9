"""The environment that fits a recognised dataset: prompt, parser, reward, near misses, command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from envwright.authoring.dataset.layout import AnswerFormat
from envwright.authoring.dataset.recognition import Recognised


@dataclass(frozen=True)
class DatasetAdvice:
    """The advised environment."""

    kind: str
    prompt: str
    parser: str
    reward: str
    near_misses: str
    command: str
    caution: str = ""


_TAG = "the one <answer> tag behind any thinking"
_BY_FORMAT: Mapping[AnswerFormat, tuple[str, str, str, str]] = {
    "number": (
        "ask for a number in <answer>…</answer>",
        f"{_TAG}; a number with or without separators and currency, as a Decimal",
        "equal numbers",
        "off by one, another sign, ten times as large, two digits swapped",
    ),
    "choice": (
        "show the options with letters, ask for one letter in <answer>…</answer>",
        f"{_TAG}; one letter, in any case, perhaps in parentheses",
        "equal letters; guessing earns 1 / number of options",
        "every other option, several letters at once",
    ),
    "boolean": (
        "ask for one of the two words in <answer>…</answer>",
        f"{_TAG}; yes, no, true or false in any case",
        "equal words; guessing earns half, so add harder questions or several at once",
        "the other word, both words",
    ),
    "label": (
        "name all labels, ask for one in <answer>…</answer>",
        f"{_TAG}; one of the labels, in any case",
        "equal labels; look at how often the most frequent one is right",
        "every other label, several labels at once",
    ),
    "json": (
        "name the keys, ask for JSON in <answer>…</answer>",
        f"{_TAG}; parsed, with no key twice",
        "equal values, whatever the order of keys",
        "a key missing, a value changed, a key too many",
    ),
    "list": (
        "ask for one element per line in <answer>…</answer>",
        f"{_TAG}; lines, without case and repeated spaces",
        "equal lists; in any order if they are labels of one thing",
        "an element missing, one too many, two swapped",
    ),
    "latex": (
        "ask for one \\boxed{…}",
        "the one box behind any thinking; spacing and sizes removed",
        "numbers by value, other formulas as they are written",
        "another sign, another numerator, a digit changed",
    ),
    "code": (
        "ask for one fenced block",
        "the one fenced block behind any thinking",
        "run the program in a sandbox against tests that it does not see",
        "an operator exchanged, a bound moved, a program that ends at once",
    ),
    "text": (
        "ask for the answer alone in <answer>…</answer>",
        f"{_TAG}; without case, repeated spaces and a full stop",
        "equal texts",
        "an edit, a word missing, two answers at once",
    ),
}


def recommended_kind(found: Recognised) -> Literal["single-turn", "judge", "code"]:
    """The kind of environment: a judge only for texts that are too long to compare."""
    if found.layout.answer == "code":
        return "code" if found.layout.roles.tests else "judge"
    return "judge" if found.long_text else "single-turn"


def advice_on(found: Recognised, source: str, *, hub: bool = False, options: str = "") -> DatasetAdvice:
    """The advice for a recognised dataset; `source` is its name on the command line."""
    kind = recommended_kind(found)
    prompt, parser, reward, near_misses = _BY_FORMAT[found.layout.answer]
    caution = ""
    if kind == "judge":
        reward = "equal texts first; if they differ, a judge model decides"
        caution = "a judge costs money and errs: prefer short or testable answers"
    if found.layout.answer == "choice" and "nowhere" in found.task:
        caution = "the data has no options: without them a letter can only be guessed"
    if found.layout.answer == "code" and not found.layout.roles.tests:
        caution = "there are no tests: a column of assertions would let programs be run instead of judged"
    named = shlex.quote(source)
    command = f"envwright new NAME {'--dataset' if hub else '--data'} {named}{options} --kind {kind}"
    return DatasetAdvice(
        kind, prompt, parser, reward, near_misses, f"{command} --answer {found.layout.answer}", caution
    )
