"""In words: what a find exploits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .form import Form
from .panel import plain
from .source import Constants

LONG = 100


@dataclass(frozen=True)
class Known:
    """What a reply can be compared with."""

    answers: Sequence[str]
    prompts: Sequence[str]
    forms: Sequence[Form]
    constants: Constants


def explained(reply: str, known: Known) -> tuple[str, str]:
    """A pattern in a word or two, and a sentence on it."""
    inner = without_marks(reply, known.forms)
    stated = [answer for answer in known.answers if _says(inner, answer)]
    marks = sum(reply.count(form.before) for form in known.forms if form.before.strip())
    if len(stated) > 1 and marks > 1:
        return "several tags", f"it gives {len(stated)} answers that exclude each other, each in marks of its own"
    if len(stated) > 1:
        return "several answers", f"it lists {len(stated)} answers that exclude each other"
    if not re.search(r"\w", inner):
        return _of_nothing(inner.strip(), marks)
    for find in (_from_source, _piece, _from_prompt):
        if said := find(inner.strip(), known):
            return said
    if len(reply) >= LONG:
        return "length", f"it says nothing in {len(reply)} characters"
    if stated:
        return "any answer", "it is the right answer of one task, and other tasks pay it as well"
    if marks:
        return "form", "it has the right form around words that answer nothing"
    return "task-blind", "it does not depend on the task"


def without_marks(reply: str, forms: Sequence[Form]) -> str:
    for form in forms:
        for mark in (form.lead, form.before, form.after):
            if mark.strip():
                reply = reply.replace(mark, " ")
    return reply


def _says(inner: str, answer: str) -> bool:
    if re.search(rf"(?<!\w){re.escape(answer.strip())}(?!\w)", inner):
        return True
    return len(plain(answer)) > 3 and plain(answer) in plain(inner)


def _of_nothing(inner: str, marks: int) -> tuple[str, str]:
    if inner in ("[]", "{}", "()", ",", "", "[[]]", "[{}]"):
        shown = inner or "nothing"
        where = " inside the marks" if marks else ""
        return "empty", f"it says {shown}{where}: where there is nothing to check, no check fails"
    return "no content", "it has no letter and no digit"


def _from_source(inner: str, known: Known) -> tuple[str, str] | None:
    place = known.constants.strings.get(inner)
    if place is None and inner:
        words = re.findall(r"[\w.+-]{2,}", inner)
        places = [known.constants.strings.get(word) for word in words]
        place = next(filter(None, places), None) if words and all(places) else None
    if place is None or len(inner) < 2:
        return None
    return "constant from the source", f"its words stand in the reward's own source, {place}"


def _piece(inner: str, known: Known) -> tuple[str, str] | None:
    if 0 < len(inner) <= 3 and sum(inner in answer for answer in known.answers) > 1:
        return "piece of the answer", "it is a piece of several right answers: the reward looks for the reply in the answer"
    return None


def _from_prompt(inner: str, known: Known) -> tuple[str, str] | None:
    words = re.findall(r"\w{3,}", inner)
    if words and all(all(word in prompt for prompt in known.prompts) for word in words):
        return "words of the prompt", "its words stand in every prompt"
    return None
