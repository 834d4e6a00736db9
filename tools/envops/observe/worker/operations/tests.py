"""The author's pytest tests."""

from __future__ import annotations

from ..author_tests import run_tests
from ..channel import Request
from ..session import Session


def answer(session: Session, request: Request) -> None:
    """Run them and send the outcome of each."""
    run_tests(session, request["files"], request["toolbox"])
