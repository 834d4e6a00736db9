"""The worker's loop: requests come in, operations answer them."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module

from .channel import Channel, Request
from .confinement import die_with_host, prefer_to_be_killed
from .failures import OutOfTime
from .session import Session

OPERATIONS = ("load", "tasks", "rewards", "cases", "validation", "tests", "evaluate")
"""Each is a module of `operations` with a function `answer(session, request)`, imported when it is first asked for."""


def serve() -> None:
    """Answer requests until the host closes the channel or dies."""
    prefer_to_be_killed()
    logging.disable(logging.CRITICAL)
    channel = Channel.over_standard_streams()
    session = Session(channel)
    for request in channel.requests():
        answer(session, request)
    session.close()
    sys.stderr.flush()
    os._exit(0)  # threads and event loops of the environment's have no say in this


def answer(session: Session, request: Request) -> None:
    """Answer one request; whatever the environment's code does, the answer has an end."""
    failure: BaseException | None = None
    try:
        if request["operation"] not in OPERATIONS:
            raise LookupError(f"no operation is called {request['operation']!r}")
        import_module(f".operations.{request['operation']}", __package__).answer(session, request)
    except (Exception, OutOfTime) as error:
        failure = error
    except SystemExit as error:  # an environment that leaves must not take the answer with it
        failure = RuntimeError(f"the environment called exit({error.code!r})")
        failure.__cause__ = error
    session.report_network()
    if failure is None:
        session.channel.done()
    else:
        session.channel.failed(session.sources.failure(failure))
