"""The author's pytest tests: begun in a fork, which goes on beside other requests, and collected later."""

from __future__ import annotations

from ..author_tests import AuthorTests
from ..channel import Request
from ..session import Session


def answer(session: Session, request: Request) -> None:
    if "files" in request:
        folder, seconds = session.settings.package, request["seconds"]
        session.tests = AuthorTests(folder, request["files"], request["toolbox"], session, seconds)
    elif session.tests is not None:
        for outcome in session.tests.outcomes():
            session.channel.item("test", outcome)
