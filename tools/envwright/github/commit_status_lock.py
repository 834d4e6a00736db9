"""A lock for paid work that runs once per commit: a commit status with its beginning and its result."""

from __future__ import annotations

from dataclasses import dataclass

from envwright import exit_codes
from envwright.exit_codes import CommandError
from envwright.github.api import GitHub, GitHubError

CONTEXT = "envwright/evaluate"
ENVIRONMENT = "evaluation"
"""The environment of the job with the key."""
STATES = {"success": "success", "failure": "failure", "cancelled": "error", "skipped": "error"}
"""A job's result → the state of the commit status."""


@dataclass(frozen=True)
class Claim:
    """The head commit of a pull request, which was locked."""

    commit: str
    approval: str
    """Whether anybody has to approve the evaluation, in words."""


def claim(github: GitHub, number: int) -> Claim:
    """Lock the head commit of an open pull request, unless it was locked before.

    The workflow's concurrency group prevents two runs at once. Raises `CommandError` with the reason of a refusal.
    """
    pull = github.get(f"pulls/{number}")
    commit = str(pull["head"]["sha"])
    if pull["state"] != "open":
        raise CommandError(f"pull request {number} is {pull['state']}", exit_codes.FAIL)
    if any(each["context"] == CONTEXT for each in github.all(f"commits/{commit}/statuses")):
        message = f"{commit[:12]} was evaluated before: push a new commit, or look at its checks"
        raise CommandError(message, exit_codes.FAIL)
    approval = _approval(github)
    _set_status(github, commit, "pending", approval)
    return Claim(commit, approval)


def _approval(github: GitHub) -> str:
    """Whether the job with the key waits for a person: private repositories have reviewers on some plans only."""
    try:
        rules = github.get(f"environments/{ENVIRONMENT}").get("protection_rules", [])
    except GitHubError as error:
        if error.status != 404:
            return f"whether it waits for an approval is unknown: GitHub does not show the environment {ENVIRONMENT}"
        rules = []
    if any(rule.get("type") == "required_reviewers" for rule in rules):
        return "waits for approval"
    return f"starts without an approval: the environment {ENVIRONMENT} has no required reviewers"


def close(github: GitHub, commit: str, result: str) -> None:
    """Set the result, a job's result in GitHub's words. Raises `GitHubError`."""
    _set_status(github, commit, STATES.get(result, "error"), f"the evaluation: {result}")


def _set_status(github: GitHub, commit: str, state: str, description: str) -> None:
    body = {"state": state, "context": CONTEXT, "description": description}
    github.send("POST", f"statuses/{commit}", body)
