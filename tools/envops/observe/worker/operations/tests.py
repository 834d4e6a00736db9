"""The author's pytest tests."""

from __future__ import annotations

from ..author_tests import run_tests
from ..channel import Request
from ..session import Session


def answer(session: Session, request: Request) -> None:
    folder = session.settings.package
    for outcome in run_tests(folder, request["files"], request["toolbox"], session, request["seconds"]):
        session.channel.item("test", outcome)
