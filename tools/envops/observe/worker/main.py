"""The worker's loop: requests come in, operations answer them."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module

from .channel import Channel, Request
from .confinement import NetworkGuard, prefer_to_be_killed
from .failures import said_as_exception
from .imported import import_ahead
from .session import Session

OPERATIONS = (
    "load",
    "serve",
    "tasks",
    "rewards",
    "cases",
    "validation",
    "tests",
    "mutation",
    "harness",
    "ahead",
    "evaluate",
    "endpoint",
    "listing",
    "rescore",
    "reply",
    "spare",
    "invariants",
    "search",
)
"""Each is a module of `operations` with a function `answer(session, request)`, imported when it is first asked for."""

STAGES = {"cases": "rewards", "serve": "load"}
"""The stage of an operation, where it has another name."""


def serve(watching: NetworkGuard | None = None) -> None:
    """Answer requests until the host closes the channel or dies; a fork is watched by a guard already."""
    prefer_to_be_killed()
    logging.disable(logging.CRITICAL)
    channel = Channel.over_standard_streams()
    session = Session(channel, watching or import_ahead())
    for request in channel.requests():
        answer(session, request)
    session.close()
    sys.stderr.flush()
    os._exit(0)  # threads and event loops of the environment's have no say in this


def answer(session: Session, request: Request) -> None:
    """Answer one request; whatever the environment's code raises, the answer has an end."""
    failure: BaseException | None = None
    session.enter(str(request.get("stage") or STAGES.get(request["operation"], request["operation"])))
    try:
        if request["operation"] not in OPERATIONS:
            raise LookupError(f"no operation is called {request['operation']!r}")
        import_module(f".operations.{request['operation']}", __package__).answer(session, request)
    except BaseException as error:
        failure = said_as_exception(error)
    session.report_network()
    if failure is None:
        session.channel.done()
    else:
        session.channel.failed(session.sources.failure(failure))
