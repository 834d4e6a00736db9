"""A conversation with a tool, and what the code of its package sees of the machine and the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envwright.facts.observed import Place
from packages_reading_surroundings import FILES
from sample_packages import Seen, line_of, look_at, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from envwright.system.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.worker]
CANARIES = ("PRIME_API_KEY", "PRIME_TEAM_ID", "HF_TOKEN", "OPENAI_API_KEY", "SOME_TOKEN")


@pytest.fixture(scope="module")
def seen(environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch) -> Seen:
    for name in CANARIES:
        patch.setenv(name, "canary")
    patch.setenv("SEARCH_API_KEY", "declared")
    package = write_package(environments / "curious", "v1", FILES, wheel_files=("sitecustomize.py",))
    return look_at(package, workspace, patch, secrets=("SEARCH_API_KEY", "UNSET_API_KEY"))


def test_observation_has_no_failures(seen: Seen):
    assert seen.facts.failures == {}


def test_verifiers_is_executed_once(seen: Seen):
    counts = {score.functions["executions"].score for score in seen.facts.scores if "executions" in score.functions}
    counts |= {rollout.functions["executions"].score for rollout in seen.facts.rollouts}
    assert counts == {1.0}


def test_declared_variables_are_visible(seen: Seen):
    variables = seen.facts.tasks[0].data["variables"]
    assert variables["SEARCH_API_KEY"] == "declared"
    assert "UNSET_API_KEY" not in variables


def test_tool_servers_have_no_other_variables_than_worker(seen: Seen):
    score = next(score for score in seen.facts.scores if score.policy == "oracle")
    replies = next(message["content"] for message in score.completion if message["role"] == "tool")
    assert "the server sees" in replies
    assert "HF_HUB_OFFLINE" in replies
    assert not [name for name in CANARIES if f" {name}" in replies]


def test_swallowed_connections_are_recorded_with_their_line_but_not_those_on_loopback(seen: Seen):
    hosts = [attempt.address.split(":")[0] for attempt in seen.facts.network]
    assert set(hosts) == {"203.0.113.9", "files.example.org", "judge.example.org"}
    (attempt,) = (attempt for attempt in seen.facts.network if "203.0.113.9" in attempt.address)
    file = "curious/surroundings.py"
    assert (attempt.address, attempt.stage) == ("203.0.113.9:80", "load")
    assert attempt.place == Place(file, line_of(seen.package, file, "# an address"))


def test_oracle_plays_whole_conversations(seen: Seen):
    score = next(score for score in seen.facts.scores if score.policy == "oracle")
    assert [message["role"] for message in score.completion] == ["assistant", "tool", "assistant"]
    assert score.reward == 1.0


def test_case_can_script_the_turns(seen: Seen):
    assert (seen.score("a wrong turn").reward, seen.score("a right turn").reward) == (0.0, 1.0)
