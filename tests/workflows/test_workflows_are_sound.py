"""Requirements on every workflow."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from workflow_runner import FOLDER, ROOT, workflows

NAMES = [name for name, _ in workflows()]
JOBS = [
    pytest.param(job, id=f"{name}:{job_name}")
    for name, workflow in workflows()
    for job_name, job in workflow["jobs"].items()
]
BIN = Path(sys.executable).parent


def test_zizmor_reports_no_problem() -> None:
    done = subprocess.run(
        [BIN / "zizmor", "--offline", "--quiet", "--no-progress", ROOT / FOLDER], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_match_their_schema() -> None:
    command = [BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *sorted((ROOT / FOLDER).glob("*.yml"))], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("workflow", [workflow for _, workflow in workflows()], ids=NAMES)
def test_workflows_grant_no_permissions_by_default(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {}
    assert "group" in workflow["concurrency"]
    assert "pull_request_target" not in workflow["on"]


@pytest.mark.parametrize("job", JOBS)
def test_jobs_declare_permissions_and_timeout(job: dict[str, Any]) -> None:
    assert "permissions" in job
    assert "uses" in job or job["timeout-minutes"] <= 120
    for step in job.get("steps", ()):
        if str(step.get("uses", "")).startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("job", JOBS)
def test_job_steps_are_single_tool_calls(job: dict[str, Any]) -> None:
    for step in job.get("steps", ()):
        if "run" in step:
            assert "\n" not in step["run"].strip()
            assert "${{" not in step["run"], "values reach a shell as variables, never as text of the script"
            assert re.search(r"\bnox\b|\.ci/run|^cp |GITHUB_OUTPUT|^mkdir |^exit 1$", step["run"]), step["run"]


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_to_commits_with_version_comment(name: str) -> None:
    used = re.findall(r"^ +(?:- )?uses: (\S+)(.*)", (ROOT / FOLDER / name).read_text(), re.MULTILINE)
    for action, comment in used:
        if not action.startswith("./"):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
            assert re.match(r" # v\d+\.\d+\.\d+", comment), f"{action} says no version"
