"""Open questions about the real server, as settings: a release must succeed with each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Assumption:
    question: str
    allowed: tuple[str, ...]
    """The possible answers, the assumed one first; empty if the answer is a number."""


ASSUMPTIONS = {
    "halves": Assumption(
        "A wheel was published and its source was not: is a second push of the same content accepted?",
        ("accepted", "wedged"),
    ),
    "same_content": Assumption("Which status refuses content that is already published?", ()),
    "visibility": Assumption(
        "A push names another visibility than the environment has: is it changed?", ("changed", "kept")
    ),
    "default_visibility": Assumption("A push without a visibility: which one does it get?", ("PRIVATE", "PUBLIC")),
    "private_wheels": Assumption(
        "Are a private environment's wheel and index offered to those who may see it?", ("served", "hidden")
    ),
    "paging": Assumption("Are requested pages of a list served, or everything at once?", ("served", "ignored")),
    "page_limit": Assumption("How many entries does a page have at most, regardless of the request?", ()),
    "run_names": Assumption("May two runs have one name?", ("free", "unique")),
    "prepare": Assumption(
        "Is a training config checked before it is submitted? If so, the CLI installs what the server names.",
        ("unsupported", "missing", "checked"),
    ),
}


@dataclass(frozen=True)
class Behaviour:
    """The answers that an emulator uses."""

    halves: str = "accepted"
    same_content: int = 409
    visibility: str = "changed"
    default_visibility: str = "PRIVATE"
    private_wheels: str = "served"
    paging: str = "served"
    page_limit: int = 1000
    run_names: str = "free"
    prepare: str = "unsupported"


class UnknownAssumption(ValueError):
    """A setting does not exist, or not with this answer."""


def behaviour(settings: Iterable[str]) -> Behaviour:
    """The behaviour that `question=answer` texts request. Raises `UnknownAssumption`, with the possible settings."""
    chosen = Behaviour()
    for setting in settings:
        name, _, answer = setting.partition("=")
        name = name.strip().replace("-", "_")
        if name not in ASSUMPTIONS:
            known = ", ".join(field.name.replace("_", "-") for field in fields(Behaviour))
            raise UnknownAssumption(f"{setting}: unknown setting; the settings are {known}")
        allowed = ASSUMPTIONS[name].allowed
        if not allowed and not answer.isdecimal():
            raise UnknownAssumption(f"{setting}: the answer must be a whole number")
        if allowed and answer not in allowed:
            raise UnknownAssumption(f"{setting}: the answers are {' and '.join(allowed)}")
        value: Any = answer if allowed else int(answer)
        chosen = replace(chosen, **{name: value})
    return chosen
