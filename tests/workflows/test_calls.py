"""Permissions, secrets and inputs between a team's workflows and those that they call."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from called_workflows import LEVELS, ROOT, Workflow, called, callers

CALLERS = callers()
GIVEN = {"inputs.pull_request": "7", "inputs.endpoint": "qwen3-30b", "inputs.dollars": "1"}


def _call(tool: dict[str, Path], name: str, **changes: Any) -> Workflow:
    """The workflow that a team's file calls, after a change of that call."""
    caller = copy.deepcopy(CALLERS[name])
    (job,) = caller["jobs"].values()
    job.update(changes)
    return called(Workflow(caller, Path("unused"), "unused", {}), job, tool, GIVEN)


@pytest.mark.parametrize("name", CALLERS)
def test_caller_grants_exactly_what_the_called_jobs_request(name: str, tool: dict[str, Path]) -> None:
    workflow = _call(tool, name)

    requested: dict[str, str] = {}
    for job in workflow.document["jobs"].values():
        for permission, level in job["permissions"].items():
            requested[permission] = max(level, requested.get(permission, "none"), key=LEVELS.index)
    (caller,) = CALLERS[name]["jobs"].values()
    assert caller["permissions"] == requested


@pytest.mark.parametrize("name", CALLERS)
def test_caller_passes_exactly_the_secrets_that_the_called_jobs_use(name: str, tool: dict[str, Path]) -> None:
    workflow = _call(tool, name)

    assert workflow.secrets == frozenset(re.findall(r"secrets\.(\w+)", str(workflow.document["jobs"])))
    assert (workflow.inputs["runner"], workflow.inputs["python"]) == ("ubuntu-24.04", "3.12")


@pytest.mark.parametrize("name", CALLERS)
def test_page_names_permissions_and_secrets_of_each_caller(name: str) -> None:
    (row,) = re.findall(rf"(?m)^\| `{name}` \| .* \| (.*) \|(.*)\|$", (ROOT / "docs/ci.md").read_text())
    (job,) = CALLERS[name]["jobs"].values()
    assert row[0] == ", ".join(f"`{permission}: {level}`" for permission, level in job["permissions"].items())
    assert re.findall(r"\w+", row[1]) == list(job.get("secrets", {}))


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("comment.yml", {"permissions": {"contents": "read"}}, "does not grant"),
        ("release.yml", {"secrets": "inherit"}, "all secrets are handed on"),
        ("release.yml", {"secrets": {}}, "secrets that are missing"),
        ("validate.yml", {"secrets": {"KEY": "${{ secrets.KEY }}"}}, "secrets that are not declared"),
        ("validate.yml", {"with": {"machine": "large"}}, "inputs that are not declared"),
        ("validate.yml", {"with": {"shards": "many"}}, "is not a number"),
        ("evaluate.yml", {"with": {}}, "is missing"),
    ],
)
def test_call_that_github_refuses_is_refused_here(
    name: str, changes: dict[str, Any], said: str, tool: dict[str, Path]
) -> None:
    with pytest.raises(AssertionError, match=said):
        _call(tool, name, **changes)
