"""What is said and compared for each format of an answer: the words and names that the templates put in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from envops.authoring.dataset.layout import AnswerFormat


@dataclass(frozen=True)
class Style:
    """One format, as its environment asks for it and reads it."""

    noun: str
    plural: str
    instruction: str
    reader: str
    """The function that turns text into a value that can be compared."""
    value: str
    """The type of that value."""
    imports: tuple[str, ...] = ()
    same: str = ""
    """What does not matter when answers are compared, for the README."""
    insensitive: bool = False
    """Whether case does not matter."""


IN_TAG = "in <answer>…</answer>."
STYLES: Mapping[AnswerFormat, Style] = {
    "number": Style(
        "number",
        "numbers",
        f"Work it out step by step, then give the answer as a number{{unit}} {IN_TAG}",
        "as_number",
        "Decimal",
        ("import re", "from decimal import Decimal"),
        "`1,250`, `1250`, `$1250`, `1250%` and `1250.00` are the same number; with a word beside it, it is none.",
    ),
    "choice": Style(
        "letter",
        "letters of options",
        f"Give the letter of the right option {IN_TAG}",
        "as_letter",
        "str",
        ("import re",),
        "`B`, `b`, `(B)` and `B.` are the same letter. The option's text instead of its letter is no answer.",
    ),
    "boolean": Style(
        "word",
        "yes or no",
        f"Answer {{yes}} or {{no}} {IN_TAG}",
        "as_boolean",
        "bool",
        (),
        "`yes` and `true` are the same, and so are `no` and `false`, in any case. Any further word makes it no answer.",
        insensitive=True,
    ),
    "label": Style(
        "label",
        "labels",
        f"The labels are: {{labels}}.\nGive the one that fits {IN_TAG}",
        "as_label",
        "str",
        (),
        "Case does not matter. Anything but one of the labels is no answer.",
        insensitive=True,
    ),
    "json": Style(
        "JSON",
        "JSON",
        f"Give the answer as JSON{{keys}} {IN_TAG}",
        "as_json",
        "str",
        ("import json", "from typing import Any"),
        "The order of keys, spaces and `1.0` for `1` do not matter; everything else does. A key that comes twice makes "
        "it no answer.",
    ),
    "list": Style(
        "list",
        "lists",
        f"Write the list {IN_TAG[:-1]}, one element per line and nothing else.",
        "as_elements",
        "list[str]",
        (),
        "The order matters; case, blank lines and repeated spaces do not.",
        insensitive=True,
    ),
    "latex": Style(
        "formula",
        "formulas",
        "Work it out step by step, then give the answer as a formula, once, in \\boxed{…}.",
        "as_formula",
        "Fraction | str",
        ("import re", "from fractions import Fraction"),
        "Spaces, dollars, `\\left` and `\\dfrac` for `\\frac` do not matter; `1/2`, `0.5` and `\\frac{1}{2}` are one "
        "number. Other formulas must be written as the data writes them.",
    ),
    "code": Style(
        "program",
        "programs",
        "Write a Python program in one fenced block: ```python … ```",
        "as_program",
        "str",
        (),
        "Blank lines and spaces at the ends of lines do not matter; everything else does.",
    ),
    "text": Style(
        "text",
        "short texts",
        f"Give the answer, and nothing else, {IN_TAG}",
        "as_words",
        "str",
        (),
        "Case, repeated spaces and a full stop at the end do not matter; everything else does.",
        insensitive=True,
    ),
}
UNORDERED = replace(
    STYLES["list"],
    plural="labels, one or several at once",
    instruction=f"{{labels}}Write all that fit {IN_TAG[:-1]}, one per line, in any order, and nothing else.",
    same="Order, case, blank lines and repeated spaces do not matter; a label too many or too few does.",
)
PRINTED: Mapping[AnswerFormat, str] = {
    "number": "a number{unit}",
    "choice": "the letter of the right option",
    "boolean": "{yes} or {no}",
    "label": "the label that fits. The labels are: {labels}",
    "json": "the answer as JSON{keys}",
    "list": "the list, one element per line",
    "latex": "the answer as a formula in LaTeX",
    "text": "the answer",
}
"""What a program is to print, where replies are programs and answers are not."""


def style_of(answer: AnswerFormat, *, unordered: bool = False) -> Style:
    """How answers of a format are asked for and read."""
    return UNORDERED if unordered and answer == "list" else STYLES[answer]
