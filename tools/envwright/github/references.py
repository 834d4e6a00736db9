"""Branches and tags of a repository, by the name of their reference: `heads/main`, `tags/v1`."""

from __future__ import annotations

from envwright.github.api import GitHub, GitHubError


def commit_of(github: GitHub, reference: str) -> str | None:
    """What a reference points to; `None` if it does not exist. Raises `GitHubError`."""
    try:
        return str(github.get(f"git/ref/{reference}")["object"]["sha"])
    except GitHubError as error:
        if error.status != 404:
            raise
        return None


def point(github: GitHub, reference: str, known: str | None, commit: str) -> None:
    """Create a reference, or move it from the commit `known`. Raises `GitHubError`."""
    if known is None:
        github.send("POST", "git/refs", {"ref": f"refs/{reference}", "sha": commit})
    else:
        github.send("PATCH", f"git/refs/{reference}", {"sha": commit, "force": True})
