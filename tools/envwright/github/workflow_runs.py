"""Earlier runs of this repository's workflows, whose artifacts later ones build on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from envwright.github.api import PAGE, GitHub

QUEUE = "gh-readonly-queue/"
"""Branches of the merge queue. Only GitHub makes them, and their names end with the commit that they build on."""


def is_commit(text: str) -> bool:
    """Whether a text is the whole id of a commit."""
    return re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", text) is not None


def commits_of_successes(github: GitHub, workflow: str, branch: str) -> list[str]:
    """The commits for which a workflow succeeded on a branch, the newest run first. Raises `GitHubError`."""
    runs = _successes(github, workflow, {"branch": branch}, lambda branch_of_run: branch_of_run == branch)
    return [commit for run in runs if is_commit(commit := str(run["head_sha"]))]


def last_success(github: GitHub, workflow: str, branch: str) -> int | None:
    """The newest run of a workflow on a branch that succeeded. Raises `GitHubError`."""
    return _newest(_successes(github, workflow, {"branch": branch}, lambda branch_of_run: branch_of_run == branch))


def success_in_merge_queue(github: GitHub, workflow: str, commit: str, base: str) -> int | None:
    """The run of the merge queue that succeeded for a commit, if it compared the commit with this base.

    Raises `GitHubError`.
    """
    query = {"event": "merge_group", "head_sha": commit}
    runs = _successes(github, workflow, query, lambda branch: branch.startswith(QUEUE) and branch.endswith(f"-{base}"))
    return _newest(runs)


def was_validated(github: GitHub, commit: str, branch: str) -> bool:
    """Whether a commit's release on a branch succeeded, or its validation by the merge queue. Raises `GitHubError`."""
    query = {"head_sha": commit}
    released = _successes(github, "release.yml", query, lambda found: found == branch)
    queued = _successes(
        github, "validate.yml", {**query, "event": "merge_group"}, lambda found: found.startswith(QUEUE)
    )
    return _newest(released) is not None or _newest(queued) is not None


def _newest(runs: Iterator[Mapping[str, Any]]) -> int | None:
    return next((int(run["id"]) for run in runs), None)


def _successes(
    github: GitHub, workflow: str, query: dict[str, str], fits: Callable[[str], bool]
) -> Iterator[Mapping[str, Any]]:
    """The successful runs of this repository's own branches that fit, the newest first."""
    answer = github.get(f"actions/workflows/{workflow}/runs", **query, status="success", per_page=PAGE)
    for run in answer["workflow_runs"]:
        repository = run["head_repository"] or {}  # none for a fork that was deleted
        is_own = repository.get("full_name") == github.repository
        if is_own and run["head_sha"] == query.get("head_sha", run["head_sha"]) and fits(str(run["head_branch"])):
            yield run
