"""Every `run:` step of every workflow, carried out in a clone; of costly commands only the command line is checked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from called_workflows import workflows
from merged_repository import Origin, team_with
from workflow_runner import PUBLISHED, Runner

BASE = "inputs.base || github.event.merge_group.base_sha || github.event_name == 'pull_request' && 'HEAD^1' || ''"
FAILED = "contains(needs.*.result, 'failure') || contains(needs.*.result, 'cancelled')"
HAS_LOCKS = "hashFiles('environments/*/requirements.lock') != ''"
PROJECT = ("nightly-project.yml", "slow.yml")
CANARY = "canary-of-a-secret-91b2"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    made = team_with(tmp_path_factory.mktemp("repository"), "reverse_text")
    made.git("checkout", "-q", "-b", "more")
    made.add_environment("word_problems")
    made.commit("another environment")
    return made


@pytest.fixture
def runner(origin: Origin, tool: dict[str, Path], tmp_path: Path) -> Runner:
    return Runner(origin.bare, tmp_path, real=("shards", "plan", "docs", "report", "comment"), repositories=tool)


@pytest.fixture
def quiet(runner: Runner) -> Runner:
    """Carries out no command."""
    return replace(runner, real=())


def _of_pull_request(origin: Origin) -> dict[str, str]:
    return {
        BASE: origin.git("rev-parse", "origin/main"),
        "github.event_name == 'pull_request'": "true",
        "matrix.names": "word-problems",
        "matrix.names && github.event_name == 'pull_request'": "true",
        "matrix.runs": "",
        "matrix.index": "1",
        FAILED: "false",
    }


@pytest.mark.slow
def test_pull_request_is_sharded_validated_and_merged(origin: Origin, runner: Runner) -> None:
    head, says = origin.git("rev-parse", "HEAD"), _of_pull_request(origin)

    plan = runner.run("validate.yml", "plan", head, says)
    assert plan.passed, plan.output
    matrix = json.loads(plan.outputs["matrix"])
    assert [entry["names"] for entry in matrix["include"]] == ["word-problems"]
    assert "acme/word-problems" in plan.summary
    assert plan.outputs["project"] == "no", "the team's own checks are for changes of other files"
    assert plan.sessions[-1] == "docs --check"

    shard = runner.run("validate.yml", "shard", head, says)
    assert shard.passed, shard.output
    assert shard.sessions == [
        "prepare --declared word-problems",
        "validate --no-cache word-problems",
        f"rewards diff word-problems --against {says[BASE]}",
    ]

    gate = runner.run("validate.yml", "gate", head, says)
    assert not gate.passed, "nothing was proven, since validating was only pretended"
    assert runner.run("validate.yml", "project", head, says).output.endswith("the checks of the team\n")


@pytest.mark.slow
@pytest.mark.parametrize(("base", "file"), [("origin/main", "README.md"), ("", ""), ("0" * 40, "")])
def test_pull_request_of_other_files_runs_the_teams_own_checks(
    base: str, file: str, origin: Origin, quiet: Runner
) -> None:
    if file:
        (origin.work / file).write_text("# changed\n")
        origin.commit("a change of another file")
    says = {**_of_pull_request(origin), BASE: origin.git("rev-parse", base) if file else base}
    planned = quiet.run("validate.yml", "plan", origin.git("rev-parse", "HEAD"), says)
    if file:
        origin.git("reset", "-q", "--hard", "HEAD~1")
        origin.git("push", "-q", "--force", "origin", "HEAD")

    assert planned.outputs["project"] != "no"


def test_pull_request_of_runs_alone_has_a_shard_that_judges_them(origin: Origin, runner: Runner) -> None:
    head = origin.git("rev-parse", "HEAD")
    due = {"matrix.names": "", "matrix.runs": "first", "matrix.names && github.event_name == 'pull_request'": "false"}

    shard = runner.run("validate.yml", "shard", head, {**_of_pull_request(origin), **due})

    assert shard.sessions == ["validate --no-cache --runs first"], shard.output


@pytest.mark.slow
def test_pull_request_reads_a_store_that_the_repository_names(origin: Origin, quiet: Runner) -> None:
    store = {
        "github.event_name == 'pull_request' && vars.ENVWRIGHT_STORE || ''": "s3://facts",
        "(github.event_name != 'pull_request' || vars.ENVWRIGHT_STORE == '') && 'yes' || ''": "",
    }

    shard = quiet.run("validate.yml", "shard", origin.git("rev-parse", "HEAD"), {**_of_pull_request(origin), **store})

    assert shard.sessions[1] == "validate word-problems", shard.output


@pytest.mark.slow
def test_pull_request_without_environments_passes_the_gate(origin: Origin, runner: Runner) -> None:
    head = origin.git("rev-parse", "origin/main")
    says = {**_of_pull_request(origin), BASE: head}

    plan = runner.run("validate.yml", "plan", head, says)
    gate = runner.run("validate.yml", "gate", head, says)

    assert plan.passed, plan.output
    assert json.loads(plan.outputs["matrix"]) == {"include": []}
    assert gate.passed, gate.output


def test_gate_fails_after_a_failed_job(origin: Origin, runner: Runner) -> None:
    head = origin.git("rev-parse", "origin/main")
    says = {**_of_pull_request(origin), BASE: head, FAILED: "true"}
    runner.run("validate.yml", "plan", head, says)

    gate = runner.run("validate.yml", "gate", head, says)

    assert [step.what for step in gate.steps if step.code] == ["exit 1"]


@pytest.mark.slow
def test_release_jobs_receive_what_the_jobs_before_them_left(origin: Origin, runner: Runner) -> None:
    head, since = origin.git("rev-parse", "HEAD"), "0123abcd"
    says = {**_secrets(), "steps.read.outputs.commit": since, "needs.since.outputs.commit": since}
    for name in ("report", "published", "loaded", "release"):
        (runner.artifacts / name).mkdir(parents=True)

    sessions = {}
    for name in ("since", "publish", "verify", "record", "train"):
        job = runner.run("release.yml", name, head, says | {PUBLISHED: "true"})
        assert job.passed, job.output
        sessions[name] = job.sessions

    assert sessions == {
        "since": ["ci since --branch main", f"ci past-run validate.yml --queued {head} {since}"],
        "publish": ["release --yes --evidence-only proven/ --since 0123abcd"],
        "verify": ["prepare --declared", "release verify published/"],
        "record": ["ci join published/ loaded/"],
        "train": ["train --yes --ledger released/release.json"],
    }


@pytest.mark.slow
def test_evaluate_jobs_run_claimed_commit_with_endpoints_of_main(origin: Origin, runner: Runner) -> None:
    head = origin.git("rev-parse", "HEAD")
    says = {
        **_secrets(),
        "inputs.pull_request": "7",
        "inputs.endpoint": "qwen3-30b",
        "inputs.dollars": "0.50",
        "needs.claim.outputs.commit": head,
        "needs.evaluate.result": "success",
    }

    done = [
        runner.run("evaluate.yml", job, origin.git("rev-parse", "origin/main"), says)
        for job in ("claim", "evaluate", "close")
    ]

    assert [job.sessions for job in done] == [
        ["ci claim 7"],
        [
            "prepare --declared --root candidate --changed origin/main",
            "smoke --root candidate --changed origin/main --model qwen3-30b --max-cost 0.50",
        ],
        [f"ci claim --close {head} success"],
    ]
    assert all(job.passed for job in done), "\n".join(job.output for job in done)


@pytest.mark.slow
def test_nightly_jobs_check_hub_and_dependencies(origin: Origin, quiet: Runner) -> None:
    says = {**_secrets(), "matrix.resolution": "lowest-direct", HAS_LOCKS: "true"}
    jobs = ("drift", "dependencies", "locks", "propose", "together")
    done = [quiet.run("nightly.yml", job, origin.git("rev-parse", "HEAD"), says) for job in jobs]

    assert all(job.passed for job in done), "\n".join(job.output for job in done)
    assert [job.sessions for job in done] == [
        ["plan"],
        ["lock --environments --resolution lowest-direct", "prepare", "validate"],
        ["lock --environments"],
        ["ci propose"],
        ["together"],
    ]


@pytest.mark.slow
def test_locks_of_the_night_reach_the_environments_they_are_of(origin: Origin, quiet: Runner) -> None:
    head, says = origin.git("rev-parse", "HEAD"), {HAS_LOCKS: "true"}
    assert quiet.run("nightly.yml", "locks", head, says).passed
    for lock in quiet.artifacts.glob("locks/**/reverse_text/requirements.lock"):
        lock.write_text("renewed")

    assert quiet.run("nightly.yml", "propose", head, says).passed

    (lock,) = quiet.folder.glob("nightly.yml-propose-*/environments/reverse_text/requirements.lock")
    assert lock.read_text() == "renewed"


@pytest.mark.slow
def test_night_of_a_repository_without_environments_proposes_nothing_and_passes(origin: Origin, quiet: Runner) -> None:
    done = quiet.run("nightly.yml", "propose", origin.git("rev-parse", "HEAD"), {HAS_LOCKS: "false"})
    assert (done.passed, done.sessions) == (True, ["ci propose"]), done.output


@pytest.mark.parametrize("open_already", [False, True])
def test_failed_night_has_one_open_issue(open_already: bool, origin: Origin, quiet: Runner) -> None:
    says = {"github.server_url": "https://github.example", "github.run_id": "7"}
    night = replace(quiet, variables={"STUB_GH": "true" if open_already else "false"})

    done = night.run("nightly.yml", "report", origin.git("rev-parse", "HEAD"), says)

    assert done.passed, done.output
    created = [line for line in done.sessions if line.startswith("gh issue create")]
    assert len(created) == (not open_already)
    assert all(line.endswith("https://github.example/acme/envs/actions/runs/7") for line in created)


@pytest.mark.slow
def test_nightly_jobs_of_this_project_run_its_sessions(tool: dict[str, Path], tmp_path: Path) -> None:
    (repository,) = tool.values()
    runner = Runner(repository, tmp_path)
    pure = "tests/rules tests/repository tests/files tests/system tests/text"
    (runner.artifacts / "trainers").mkdir(parents=True)
    says = {"matrix.python": "3.14", "matrix.resolution": "lowest-direct"}
    done = [runner.run(name, job, "main", says) for name in PROJECT for job in _jobs(name)]

    assert all(job.passed for job in done), "\n".join(job.output for job in done)
    assert [session for job in done for session in job.sessions] == [
        "doctor",
        "validate reverse-text",
        "nox tests -n 2 tests/rules tests/repository tests/files tests/system",
        f"nox tests -n 4 {pure}",
        f"nox bounds lowest-direct -n 4 -k not up_to_date {pure}",
        "nox tests --slow tests/workflows/test_container.py",
        "nox models --check",
        "nox trainers upstream/prime-rl upstream/rllm --write --text reports/trainers.md",
        "nox trainers --propose reports/drift",
        "nox learner",
        "nox lint",
        "nox tests",
        "nox tests --slow",
    ]


@pytest.mark.slow
def test_pages_are_built_from_the_evidence_of_releases(origin: Origin, quiet: Runner) -> None:
    (quiet.artifacts / "evidence" / "timings").mkdir(parents=True)
    (quiet.artifacts / "evidence" / "timings" / "reverse-text.json").write_text("{}")
    says = {
        "steps.past.outputs.run != ''": "false",
        "hashFiles('known/latest/timings/*.json') != ''": "true",
        "hashFiles('known/latest/validate.json') != '' && hashFiles('tools/docs_site/*') == ''": "true",
        "hashFiles('reports/site/**') != ''": "true",
        "hashFiles('tools/docs_site/*') != ''": "false",
        "github.event_name == 'workflow_dispatch' && 'report' || 'evidence'": "evidence",
        "github.event.workflow_run.id || github.run_id": "1",
    }

    build = quiet.run("pages.yml", "build", origin.git("rev-parse", "HEAD"), says)

    assert build.passed, build.output
    assert build.sessions == [
        "ci past-run pages.yml --branch main",
        "report merge known/earlier/ known/latest/ --current",
        "site",
        "cache warm",
    ]
    assert len(list(quiet.folder.glob("pages.yml-build-*/.envwright/timings/reverse-text.json"))) == 1


def test_workflow_steps_are_all_tested() -> None:
    tested = {
        "validate.yml": {"plan", "shard", "project", "gate"},
        "release.yml": {"since", "publish", "verify", "record", "train"},
        "evaluate.yml": {"claim", "evaluate", "close"},
        "nightly.yml": {"drift", "dependencies", "locks", "propose", "together", "report"},
        **{name: set(_jobs(name)) for name in PROJECT},
        "comment.yml": {"comment"},
        "pages.yml": {"build"},
        "package.yml": {"build", "announce", "point"},
    }
    for name, workflow in workflows():
        for job_name, job in workflow["jobs"].items():
            steps = sum("run" in step for step in job.get("steps", ()))
            assert not steps or job_name in tested[name], f"{name}:{job_name} runs in no test"


def _jobs(name: str) -> list[str]:
    return list(dict(workflows())[name]["jobs"])


def _secrets() -> dict[str, str]:
    names = ("PRIME_API_KEY", "PRIME_READ_KEY", "MODEL_KEY")
    return {**{f"secrets.{name}": CANARY for name in names}, "vars.PRIME_TEAM_ID": ""}
