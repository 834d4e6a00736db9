"""Open questions about the real server, as settings: a release must succeed with each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any


def _asked(question: str, *allowed: str, number: int = 0) -> Any:
    """A setting with its question: one of these answers, the assumed one first, or a number."""
    return field(default=allowed[0] if allowed else number, metadata={"question": question, "allowed": allowed})


@dataclass(frozen=True)
class Behaviour:
    """The answers that an emulator uses."""

    halves: str = _asked(
        "A wheel was published and its source was not: is a second push of the same content accepted?",
        *("accepted", "wedged"),
    )
    same_content: int = _asked("Which status refuses content that is already published?", number=409)
    visibility: str = _asked(
        "A push names another visibility than the environment has: is it changed?", "changed", "kept"
    )
    default_visibility: str = _asked("A push without a visibility: which one does it get?", "PRIVATE", "PUBLIC")
    private_wheels: str = _asked(
        "Are a private environment's wheel and index offered to those who may see it?", "served", "hidden"
    )
    paging: str = _asked("Are requested pages of a list served, or everything at once?", "served", "ignored")
    page_limit: int = _asked("How many entries does a page have at most, regardless of the request?", number=1000)
    run_names: str = _asked("May two runs have one name?", "free", "unique")
    prepare: str = _asked(
        "Is a training config checked before it is submitted? If so, the CLI installs what the server names.",
        *("unsupported", "missing", "checked"),
    )


class UnknownAssumption(ValueError):
    """A setting does not exist, or not with this answer."""


def behaviour(settings: Iterable[str]) -> Behaviour:
    """The behaviour that `question=answer` texts request. Raises `UnknownAssumption`, with the possible settings."""
    chosen, known = Behaviour(), {each.name.replace("_", "-"): each for each in fields(Behaviour)}
    for setting in settings:
        name, _, answer = setting.partition("=")
        asked = known.get(name.strip().replace("_", "-"))
        if asked is None:
            raise UnknownAssumption(f"{setting}: unknown setting; the settings are {', '.join(known)}")
        allowed = asked.metadata["allowed"]
        if not allowed and not answer.isdecimal():
            raise UnknownAssumption(f"{setting}: the answer must be a whole number")
        if allowed and answer not in allowed:
            raise UnknownAssumption(f"{setting}: the answers are {' and '.join(allowed)}")
        value: Any = answer if allowed else int(answer)
        chosen = replace(chosen, **{asked.name: value})
    return chosen
