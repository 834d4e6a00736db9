"""Begin to serve what rollouts need, so that it comes up while other things are done."""

from __future__ import annotations

from ..channel import Request
from ..session import Session

SECONDS = 5.0


def answer(session: Session, request: Request) -> None:
    """A tool server is a process that imports verifiers itself, which takes seconds."""
    if session.adapter.conversational:
        session.run(session.adapter.begin_to_serve(request["seconds"]), SECONDS)
