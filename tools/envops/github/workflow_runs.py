"""Earlier runs of this repository's workflows, whose artifacts later ones build on."""

from __future__ import annotations

from collections.abc import Callable

from envops.github.api import PAGE, GitHub

QUEUE = "gh-readonly-queue/"
"""Branches of the merge queue. Only GitHub makes them, and their names end with the commit that they build on."""


def last_success(github: GitHub, workflow: str, branch: str) -> int | None:
    """The newest run of a workflow on a branch that succeeded. Raises `GitHubError`."""
    return _newest(github, workflow, {"branch": branch}, lambda branch_of_run: branch_of_run == branch)


def success_in_merge_queue(github: GitHub, workflow: str, commit: str, base: str) -> int | None:
    """The run of the merge queue that succeeded for a commit, if it compared the commit with this base.

    Raises `GitHubError`.
    """
    query = {"event": "merge_group", "head_sha": commit}
    return _newest(github, workflow, query, lambda branch: branch.startswith(QUEUE) and branch.endswith(f"-{base}"))


def _newest(github: GitHub, workflow: str, query: dict[str, str], fits: Callable[[str], bool]) -> int | None:
    answer = github.get(f"actions/workflows/{workflow}/runs", status="success", per_page=PAGE, **query)
    for run in answer["workflow_runs"]:
        is_own = run["head_repository"]["full_name"] == github.repository
        if is_own and run["head_sha"] == query.get("head_sha", run["head_sha"]) and fits(str(run["head_branch"])):
            return int(run["id"])
    return None
