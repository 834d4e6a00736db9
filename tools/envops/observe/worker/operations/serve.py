"""Begin to serve what rollouts need, so that it comes up while other things are done."""

from __future__ import annotations

import contextlib

from ..channel import Request
from ..failures import OutOfTime
from ..session import Session

SECONDS = 60.0


def answer(session: Session, request: Request) -> None:
    """A tool server that is no fork imports verifiers itself, which takes seconds.

    What goes wrong here goes wrong again when the first rollout asks for it, and is filed there.
    """
    if session.adapter.conversational:
        with contextlib.suppress(Exception, OutOfTime):
            session.run(session.adapter.begin_to_serve(request["seconds"]), SECONDS)
