"""Describes the weakness that an exploit uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envwright_worker.search.material import FILLER, AnswerForm, Constants, elements_of, plain

LONG = 60


@dataclass(frozen=True)
class ExplanationContext:
    """The context that a reply is compared with."""

    answers: Sequence[str]
    prompts: Sequence[str]
    forms: Sequence[AnswerForm]
    constants: Constants


def explained(reply: str, known: ExplanationContext) -> tuple[str, str]:
    """A pattern in a word or two, and a sentence on it."""
    inner = without_marks(reply, known.forms)
    if len(reply) >= LONG and re.fullmatch(rf"[{FILLER}\s]+", inner):
        return "length", f"it has {len(reply)} characters and no content"
    stated = [answer for answer in known.answers if _contains_answer(inner, answer)]
    marks = sum(reply.count(form.before) for form in known.forms if form.before.strip())
    if len(stated) > 1 and marks > 1:
        return "several tags", f"it gives {len(stated)} answers that exclude each other, each in its own marks"
    if len(stated) > 1:
        return "several answers", f"it contains {len(stated)} answers that exclude each other"
    if not re.search(r"\w", inner):
        return _of_nothing(inner.strip(), marks)
    for find in (_from_source, _piece, _from_prompt):
        if stated_place := find(inner.strip(), known):
            return stated_place
    if len(reply) >= LONG:
        return "length", f"it has {len(reply)} characters and no answer"
    if stated:
        return "any answer", "it is the right answer to one task and earns the reward on other tasks too"
    if marks:
        return "form", "it has the right form and no answer"
    return "task-blind", "it does not depend on the task"


def without_marks(reply: str, forms: Sequence[AnswerForm]) -> str:
    for form in forms:
        for mark in (form.lead, form.before, form.after):
            if mark.strip():
                reply = reply.replace(mark, " ")
    return reply


def _contains_answer(inner: str, answer: str) -> bool:
    """Whether a text contains the answer; of a list, all of its elements."""
    elements = list(elements_of(answer)) if answer.strip()[:1] in ("[", "{") else []
    found = plain(inner)
    return all(
        re.search(rf"(?<!\w){re.escape(element.strip())}(?!\w)", inner, re.IGNORECASE)
        or (len(plain(element)) > 1 and plain(element) in found)
        for element in elements or [answer]
    )


def _of_nothing(inner: str, marks: int) -> tuple[str, str]:
    if inner in ("[]", "{}", "()", ",", "", "[[]]", "[{}]"):
        shown = inner or "nothing"
        where = " inside the marks" if marks else ""
        return "empty", f"it consists of {shown}{where}: with nothing to check, no check fails"
    return "no content", "it has no letter and no digit"


def _from_source(inner: str, known: ExplanationContext) -> tuple[str, str] | None:
    strings = known.constants.strings
    words = re.findall(r"[^\W_]{3,}", inner)
    places = [next((place for text, place in strings.items() if word in text), None) for word in words]
    place = strings.get(inner) if len(inner) > 1 else None
    if place is None and words and all(places):
        place = places[0]
    if place is None:
        return None
    return "constant from the source", f"its words are in the reward's own source, {place}"


def _piece(inner: str, known: ExplanationContext) -> tuple[str, str] | None:
    if 0 < len(inner) <= 3 and sum(inner in answer for answer in known.answers) > 1:
        return "piece of the answer", "it is a piece of several right answers, and the reward finds it in them"
    return None


def _from_prompt(inner: str, known: ExplanationContext) -> tuple[str, str] | None:
    words = re.findall(r"\w{3,}", inner)
    if words and all(all(word in prompt for prompt in known.prompts) for word in words):
        return "words of the prompt", "its words are in every prompt"
    return None
