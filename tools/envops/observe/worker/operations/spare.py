"""Fork a spare before anything is scored."""

from __future__ import annotations

from typing import Any

from ..channel import Request
from ..repetition import scored_in_the_spare
from ..session import Session
from ..spare import Spare


def answer(session: Session, _request: Request) -> None:
    if not session.adapter.conversational:
        session.spare = Spare(lambda question: _answered(session, question))


def _answered(session: Session, question: Any) -> Any:
    return scored_in_the_spare(session, question)
