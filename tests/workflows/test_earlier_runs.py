"""What later runs use from earlier ones: a proof of the merge queue, and the catalogue of the site."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from envwright.github.api import GitHub, last_success, success_in_merge_queue

COMMIT, BASE = "c" * 40, "b" * 40
QUEUED = {
    "id": 7,
    "head_sha": COMMIT,
    "head_branch": f"gh-readonly-queue/main/pr-3-{BASE}",
    "head_repository": {"full_name": "acme/envs"},
}


@dataclass(frozen=True)
class Runs(GitHub):
    """GitHub with these runs."""

    runs: tuple[dict[str, Any], ...] = ()
    queries: list[dict[str, Any]] = field(default_factory=list)

    def get(self, path: str, **query: str | int) -> Any:
        self.queries.append({"path": path, **query})
        return {"workflow_runs": self.runs}


def runs(*entries: dict[str, Any]) -> Runs:
    return Runs("acme/envs", "token", runs=entries)


def test_proof_of_merge_queue_is_found_for_commit_and_base() -> None:
    github = runs(QUEUED)
    assert success_in_merge_queue(github, "validate.yml", COMMIT, BASE) == 7
    assert github.queries[0] == {
        "path": "actions/workflows/validate.yml/runs",
        "status": "success",
        "per_page": 100,
        "event": "merge_group",
        "head_sha": COMMIT,
    }


@pytest.mark.parametrize(
    "other",
    [
        {"head_branch": f"gh-readonly-queue/main/pr-3-{'d' * 40}"},
        {"head_branch": f"stranger/pr-3-{BASE}"},
        {"head_sha": "e" * 40},
        {"head_repository": {"full_name": "stranger/envs"}},
        {"head_repository": None},  # a fork that was deleted
    ],
)
def test_proof_of_another_base_branch_commit_or_repository_is_refused(other: dict[str, Any]) -> None:
    assert success_in_merge_queue(runs({**QUEUED, **other}), "validate.yml", COMMIT, BASE) is None


def test_last_success_is_the_newest_run_of_the_branch() -> None:
    of_branch = {**QUEUED, "head_branch": "main"}
    assert last_success(runs(QUEUED, {**of_branch, "id": 9}, {**of_branch, "id": 8}), "pages.yml", "main") == 9
    assert last_success(runs(), "pages.yml", "main") is None
