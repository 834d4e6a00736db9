"""The comment of a pull request: created once, then edited in place."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from envwright.github.api import GitHub, GitHubError, wait_after

MARK = "<!-- envwright: validate -->"
AUTHOR = "github-actions[bot]"
LONGEST = 60_000
"""GitHub takes 65,536 characters."""


def pull_request_of(github: GitHub, event: Mapping[str, Any]) -> int | None:
    """The open pull request whose head is the commit that was validated; `None` if its head has changed.

    GitHub is queried, because an artifact can claim any number, and the event has none for forks.
    """
    run = event["workflow_run"]
    head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
    for pull in github.all("pulls", state="open", head=head):
        if pull["head"]["sha"] == run["head_sha"]:
            return int(pull["number"])
    return None


def comment(github: GitHub, number: int, text: str) -> str:
    """Create or edit the comment; returns `made`, `edited` or `unchanged`.

    The comments are read before each attempt, so that a lost answer does not lead to a second comment.
    Raises `GitHubError`.
    """
    body = f"{MARK}\n{text}"
    for attempt in count():
        found = _own(github, number)
        if found is not None and found["body"] == body:
            return "unchanged" if attempt == 0 else "edited"
        try:
            if found is None:
                github.send("POST", f"issues/{number}/comments", {"body": body})
                return "made"
            github.send("PATCH", f"issues/comments/{found['id']}", {"body": body})
            return "edited"
        except GitHubError as error:
            wait_after(error, attempt)
    raise AssertionError


def _own(github: GitHub, number: int) -> dict[str, Any] | None:
    """The comment with our mark by our author, because others can write the mark too."""
    for each in github.all(f"issues/{number}/comments"):
        if each["user"]["login"] == AUTHOR and str(each["body"]).startswith(MARK):
            return dict(each)
    return None
