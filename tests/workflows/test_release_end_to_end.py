"""From a branch of a team's repository to a published environment, by the workflows that it calls, on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from envwright.github.pull_requests import MARK
from envwright.packages.repository import Repository
from envwright_emulator.server import EmulatedHub, emulator
from fake_github import EVENT, FakeGitHub, serving
from merged_repository import Origin, team_with
from workflow_runner import ATTESTATION_FAILS, HANDED_OVER, HAS_VERIFIED, PUBLISHED, VERIFIED, Job, Runner

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NAME = "reverse-text"
BASE = "inputs.base || github.event.merge_group.base_sha || github.event_name == 'pull_request' && 'HEAD^1' || ''"
KEY = "canary-key-2e8b7d"
SAYS = {
    "github.event_name == 'pull_request'": "false",
    "contains(needs.*.result, 'failure') || contains(needs.*.result, 'cancelled')": "false",
    "secrets.PRIME_API_KEY": KEY,
    "vars.PRIME_TEAM_ID": "",
    HANDED_OVER: "true",
    PUBLISHED: "false",
    VERIFIED: "true",
    HAS_VERIFIED: "true",
    "needs.since.outputs.commit": "",
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedHub]:
    with emulator(tmp_path_factory.mktemp("hub"), teams=["acme"], key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    """A repository with a merged branch that added an environment."""
    origin = team_with(tmp_path_factory.mktemp("repository"))
    origin.git("checkout", "-q", "-b", "add")
    origin.add_environment(NAME.replace("-", "_"), "{visibility: PUBLIC}")
    origin.commit("an environment")
    origin.git("checkout", "-q", "main")
    origin.git("merge", "-q", "--no-ff", "-m", "merge", "add")
    origin.git("push", "-q", "origin", "main")
    return origin


@pytest.fixture(scope="module")
def runner(hub: EmulatedHub, merged: Origin, tool: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Runner:
    where = {name: value for name, value in hub.environment.items() if name != "PRIME_API_KEY"}
    real = ("shards", "plan", "validate", "report", "release", "join", "train")
    folder = tmp_path_factory.mktemp("jobs")
    return Runner(merged.bare, folder, real=real, variables=where, repositories=tool)


@pytest.fixture(scope="module")
def proven(merged: Origin, runner: Runner) -> list[Job]:
    """The jobs that prove, with their artifacts: of the branch before it was merged, and so of main after."""
    says = {**SAYS, BASE: "HEAD^1"}
    commit = merged.git("rev-parse", "main")
    plan = runner.run("validate.yml", "plan", commit, says)
    (entry,) = json.loads(plan.outputs["matrix"])["include"]
    matrix = {f"matrix.{key}": str(entry[key]) for key in ("names", "runs", "index")}
    is_pull = "github.event_name == 'pull_request'"
    shard = runner.run("validate.yml", "shard", commit, {**says, **matrix, f"matrix.names && {is_pull}": says[is_pull]})
    return [plan, shard, runner.run("validate.yml", "gate", commit, says)]


def test_comment_of_the_pull_request_shows_the_proof(
    merged: Origin, runner: Runner, proven: list[Job], tmp_path: Path
) -> None:
    event, fake = tmp_path / "event.json", FakeGitHub()
    event.write_text(json.dumps(EVENT))
    with serving(fake) as github:
        variables = {"GITHUB_EVENT_PATH": str(event), "GITHUB_REPOSITORY": "acme/envs", "GITHUB_API_URL": github.url}
        commenting = replace(runner, real=("comment",), variables=variables)
        says = {"github.event.workflow_run.id": "1", "hashFiles('reports/validate.sarif') != ''": "false"}
        done = commenting.run("comment.yml", "comment", merged.git("rev-parse", "main"), says)

    assert all(job.passed for job in [*proven, done]), "\n".join(job.output for job in [*proven, done])
    (made,) = fake.comments
    assert made["body"].startswith(MARK)
    assert f"`{NAME}`" in made["body"]
    assert f"`acme/{NAME}`" in made["body"], "the plan"
    (sarif,) = runner.folder.glob("comment.yml-comment-*/reports/validate.sarif")
    assert json.loads(sarif.read_bytes())["runs"][0]["tool"]["driver"]["name"] == "envwright"


def test_merge_publishes_validated_content_once(
    merged: Origin, runner: Runner, proven: list[Job], hub: EmulatedHub
) -> None:
    assert all(job.passed for job in proven), "\n".join(job.output for job in proven)
    commit = merged.git("rev-parse", "main")

    jobs = [runner.run("release.yml", job, commit, SAYS) for job in ("publish", "verify", "record")]

    assert all(job.passed for job in jobs), "\n".join(job.output for job in jobs)
    assert KEY not in "\n".join(job.output for job in jobs[1:])
    (environment,), (version,) = hub.state()["environment"], hub.state()["version"]
    package = Repository.load(merged.work, [NAME]).packages[NAME]
    assert (environment["owner"], environment["name"], environment["visibility"]) == ("acme", NAME, "PUBLIC")
    assert (version["content_hash"], version["semantic_version"]) == (package.hub_hash, package.version)
    (wheel,) = hub.state()["wheel"]
    ledger = json.loads((runner.artifacts / "release" / "release.json").read_text())
    assert ledger["environments"][0]["result"] == "published"
    assert ledger["environments"][0]["wheel"] == wheel["sha256"]
    assert ledger["environments"][0]["verified"]["sound"]
    assert ledger["commit"] == commit
    (attested,) = [step for step in jobs[2].steps if step.what.startswith("actions/attest")]
    assert attested.output == f"{wheel['sha256']}  {ledger['environments'][0]['fetched']['filename']}\n"
    assert ledger["attestation"] == "attested: GitHub has an attestation of each verified wheel"
    for says, line in (
        ({ATTESTATION_FAILS: "true"}, "not attested: the attestation failed; "),
        ({VERIFIED: "false"}, "not attested: the repository is private, "),
    ):
        record = runner.run("release.yml", "record", commit, {**SAYS, **says})
        assert record.passed, record.output
        assert json.loads((runner.artifacts / "release" / "release.json").read_text())["attestation"].startswith(line)
        assert record.summary.count("## Release of") == record.summary.count(f"- {line}") == 1
    built = [path.name for path in runner.folder.glob("release.yml-publish*/.envwright/*")]
    assert built == ["release.lock"], "the job with the key builds, installs and loads nothing"

    written = len(hub.writes())
    again = runner.run("release.yml", "publish", commit, SAYS)

    assert again.passed, again.output
    assert len(hub.writes()) == written, "a second release writes nothing"
