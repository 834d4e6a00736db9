"""Conversational packages of both generations, and what their code sees of the machine and the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import packages_reading_surroundings
import pytest
from envwright.facts.observed import Place
from sample_packages import Seen, line_of, look_at, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from envwright.system.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.worker]
CANARIES = ("PRIME_API_KEY", "PRIME_TEAM_ID", "HF_TOKEN", "OPENAI_API_KEY", "SOME_TOKEN")


@pytest.fixture(scope="module", params=["v0", "v1"])
def seen(request: pytest.FixtureRequest, environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch) -> Seen:
    for name in CANARIES:
        patch.setenv(name, "canary")
    patch.setenv("SEARCH_API_KEY", "declared")
    name = f"curious_{request.param}"
    files = packages_reading_surroundings.files(request.param)
    package = write_package(environments / name, request.param, files, wheel_files=("sitecustomize.py",))
    return look_at(package, workspace, patch, secrets=("SEARCH_API_KEY", "UNSET_API_KEY"))


def data_of(seen: Seen) -> dict[str, Any]:
    data = dict(seen.facts.tasks[0].data)
    return data.get("info") or data


def test_observation_has_no_failures(seen: Seen):
    assert seen.facts.failures == {}


def test_verifiers_is_executed_once(seen: Seen):
    counts = {score.functions["executions"].score for score in seen.facts.scores if "executions" in score.functions}
    counts |= {rollout.functions["executions"].score for rollout in seen.facts.rollouts}
    assert counts == {1.0}


def test_declared_variables_are_visible(seen: Seen):
    assert data_of(seen)["variables"]["SEARCH_API_KEY"] == "declared"
    assert "UNSET_API_KEY" not in data_of(seen)["variables"]


def test_tool_servers_have_no_other_variables_than_worker(seen: Seen):
    if seen.package.generation == "v0":
        pytest.skip("v0 tools run in the worker itself")
    score = next(score for score in seen.facts.scores if score.policy == "oracle")
    replies = next(message["content"] for message in score.completion if message["role"] == "tool")
    assert "the server sees" in replies
    assert "HF_HUB_OFFLINE" in replies
    assert not [name for name in CANARIES if f" {name}" in replies]


def test_swallowed_connections_are_recorded_with_their_line_but_not_those_on_loopback(seen: Seen):
    hosts = [attempt.address.split(":")[0] for attempt in seen.facts.network]
    assert set(hosts) == {"203.0.113.9", "files.example.org", "judge.example.org"}
    (attempt,) = (attempt for attempt in seen.facts.network if "203.0.113.9" in attempt.address)
    file = f"{seen.package.module}/surroundings.py"
    assert (attempt.address, attempt.stage) == ("203.0.113.9:80", "load")
    assert attempt.place == Place(file, line_of(seen.package, file, "# an address"))


def test_oracle_plays_whole_conversations(seen: Seen):
    score = next(score for score in seen.facts.scores if score.policy == "oracle")
    roles = [message["role"] for message in score.completion]
    assert roles == ["assistant", "user" if seen.package.generation == "v0" else "tool", "assistant"]
    assert score.reward == 1.0


def test_case_can_script_the_turns(seen: Seen):
    wrong, right = seen.score("a wrong turn"), seen.case("a right turn")
    assert wrong.reward == 0.0
    if seen.package.generation == "v0":
        assert right.score is not None
        assert right.score.reward == 1.0
