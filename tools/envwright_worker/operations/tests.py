"""The author's pytest tests."""

from __future__ import annotations

from envwright_worker.author_tests.run import run_tests
from envwright_worker.channel import JobRequest
from envwright_worker.session import Session


def answer(session: Session, request: JobRequest) -> None:
    """Run them and send the outcome of each."""
    run_tests(session, request["files"], request["toolbox"])
