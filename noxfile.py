"""The face of the project for people and CI: every session is a thin call of `envops` or of one tool.

    nox -s validate                    prove every environment
    nox -s validate -- reverse-text    prove one
    nox -s tests                       the project's own tests

Arguments behind `--` go to the command; `nox -s validate -- --help` shows them.
"""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

import nox

with contextlib.suppress(OSError, AttributeError):  # Linux: what runs below may not read this process's variables
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["validate"]

FROM_SOURCE = {"PYTHONPATH": "tools"}  # nothing to build, so nothing to fetch once the locks are installed


def envops(session: nox.Session, command: str, *locks: str) -> None:
    """Install what the tool's lock (and others) name and run one of the tool's commands."""
    install(session, "requirements.lock", *locks)
    session.run("python", "-m", "envops", command, *session.posargs, env=FROM_SOURCE)


def install(session: nox.Session, *locks: str) -> None:
    wanted = [part for lock in locks for part in ("-r", f"tools/{lock}")]
    session.install("--require-hashes", "--compile-bytecode", *wanted)


@nox.session(tags=["gates"])
def validate(session: nox.Session) -> None:
    """Prove environments: all gates, offline, without a key. `-- NAME…`, `-- --changed [BASE]`."""
    envops(session, "validate")


@nox.session(tags=["gates"], default=False)
def schema(session: nox.Session) -> None:
    """One gate: declaration, package, wheel, loading, data."""
    envops(session, "schema")


@nox.session(tags=["gates"], default=False)
def rewards(session: nox.Session) -> None:
    """One gate: what the reward functions say to right and to wrong replies."""
    envops(session, "rewards")


@nox.session(tags=["gates"], default=False)
def smoke(session: nox.Session) -> None:
    """One gate: a real evaluation against scripted policies."""
    envops(session, "smoke")


@nox.session(tags=["gates"], default=False)
def distribution(session: nox.Session) -> None:
    """One gate: whether the rewards leave something to learn."""
    platform = ["requirements-prime.lock"] if "--hosted" in session.posargs else []
    envops(session, "distribution", *platform)


@nox.session(default=False)
def inspect(session: nox.Session) -> None:
    """What a dataset holds, and which environment fits it. `-- FILE`, `-- FOLDER`, `-- OWNER/DATASET`."""
    install(session, "requirements.lock", "requirements-inspect.lock")
    session.run("python", "-m", "envops", "inspect", *session.posargs, env=FROM_SOURCE)


@nox.session(default=False)
def new(session: nox.Session) -> None:
    """Write an environment that passes all gates, to build on. `-- NAME --data FILE`."""
    install(session, "requirements.lock", "requirements-inspect.lock")
    session.run("python", "-m", "envops", "new", *session.posargs, env=FROM_SOURCE)


@nox.session(default=False)
def record(session: nox.Session) -> None:
    """Evaluate and keep the rollouts and their baseline. `-- NAME --endpoint E`, or `--policy blend`."""
    envops(session, "record")


@nox.session(default=False)
def test(session: nox.Session) -> None:
    """An environment's own tests and cases, by pytest. `-- NAME [PYTEST ARGUMENTS]`."""
    envops(session, "test")


@nox.session(default=False)
def emulator(session: nox.Session) -> None:
    """A Hub on loopback, until Ctrl-C. `-- --port P`, `-- --fault F`, `-- --assumptions`."""
    envops(session, "emulator")


@nox.session(default=False)
def rehearse(session: nox.Session) -> None:
    """The whole way from a merge to a submitted run, on loopback, without a key. `-- NAME…`, `-- --fault F`."""
    envops(session, "rehearse", "requirements-prime.lock")


@nox.session(default=False)
def together(session: nox.Session) -> None:
    """Install all environments into one place and import them. `-- NAME…` for some."""
    envops(session, "together")


@nox.session(default=False)
def comment(session: nox.Session) -> None:
    """The one comment of a pull request, in a workflow. `-- FOLDER`, `-- FOLDER --dry-run`."""
    envops(session, "comment")


@nox.session(default=False)
def claim(session: nox.Session) -> None:
    """Let an evaluation happen once per commit, in a workflow. `-- PULL_REQUEST`."""
    envops(session, "claim")


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Resolve every environment's requirements.lock anew, and the tool's own. `-- NAME…` for some."""
    envops(session, "lock")


@nox.session(default=False)
def plan(session: nox.Session) -> None:
    """What a release would publish; changes nothing. `-- --changed [BASE]`, `-- --format markdown`."""
    install(session, "requirements.lock", "requirements-prime.lock")
    session.run("python", "-m", "envops", "plan", *session.posargs, env=FROM_SOURCE)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Publish what the plan says, on passing evidence. `-- --dry-run`, `-- --evidence FILE`."""
    install(session, "requirements.lock", "requirements-prime.lock")
    session.run("python", "-m", "envops", "release", *session.posargs, env=FROM_SOURCE)


@nox.session(default=False)
def bump(session: nox.Session) -> None:
    """Raise the version of environments by one step. `-- NAME… [--minor] [--above VERSION]`."""
    envops(session, "bump")


@nox.session(tags=["project"], default=False)
def docs(session: nox.Session) -> None:
    """Write what is generated: CODEOWNERS and the reference pages in docs. `-- --check` in CI."""
    envops(session, "docs")


@nox.session(default=False)
def train(session: nox.Session) -> None:
    """Compile the declared training runs, and submit or train those that are due. `-- --dry-run`, `-- NAME --probe`."""
    install(session, "requirements.lock")
    asked = ["python", "-m", "envops", "train", *session.posargs]
    needed = str(session.run(*asked, "--requirements", env=FROM_SOURCE, silent=True) or "").strip()
    if needed.endswith(".lock"):
        install(session, "requirements.lock", needed.removeprefix("tools/"))
    session.run(*asked, env=FROM_SOURCE)


@nox.session(default=False)
def models(session: nox.Session) -> None:
    """Copy the models that trainers know by name from their packages. `-- --check` only shows the difference."""
    session.install("--upgrade", "--no-deps", "renderers", "tinker-cookbook")  # only their tables are read
    session.run("python", "tools/envops/training/copy_known_models.py", *session.posargs)


@nox.session(default=False)
def watch(session: nox.Session) -> None:
    """Follow a training run: curves, rollouts, checkpoints. `-- RUN [--follow]`."""
    envops(session, "watch", "requirements-prime.lock")


@nox.session(default=False)
def diagnose(session: nox.Session) -> None:
    """Name what is wrong with a training run, and the change it asks for. `-- RUN|METRICS`."""
    envops(session, "diagnose", "requirements-prime.lock")


@nox.session(default=False)
def compare(session: nox.Session) -> None:
    """Before and after training, paired by task. `-- NAME --before E --after E`; files and recordings are sides too."""
    envops(session, "compare")


@nox.session(default=False)
def optimize(session: nox.Session) -> None:
    """A better system prompt, by GEPA. `-- NAME --endpoint E [--max-calls N] [--max-cost D] [--write]`."""
    envops(session, "optimize")


@nox.session(tags=["project"], default=False)
def tests(session: nox.Session) -> None:
    """The project's own tests, a process per core; arguments go to pytest."""
    install(session, *(f"requirements{part}.lock" for part in ("", "-prime", "-inspect", "-tests")))
    side_by_side = ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", *longest_first()]
    # what earlier checkouts of this user compiled has no say in what tests find
    apart = {**FROM_SOURCE, "ENVOPS_CACHE_DIR": f"{session.virtualenv.location}/cache"}
    session.run("pytest", *(session.posargs or side_by_side), env=apart)


@nox.session(tags=["project"], default=False)
def learner(session: nox.Session) -> None:
    """Run the tests that need torch, TRL or another trainer's packages, on a CPU; arguments go to pytest."""
    install(session, *(f"requirements{part}.lock" for part in ("", "-tests", "-trl")))
    apart = {**FROM_SOURCE, "ENVOPS_CACHE_DIR": f"{session.virtualenv.location}/cache"}
    # one after the other: a probe has a limit of time, which it would share with the tests beside it
    session.run("pytest", "-m", "torch", *session.posargs, env=apart)


def longest_first() -> list[str]:
    """The folders of tests, with those first that take minutes: no core is left without work at the end."""
    long = ["docs", "authoring", "e2e", "workflows", "defects", "validation"]
    found = [path for path in Path("tests").iterdir() if path.match("test_*.py") or any(path.rglob("test_*.py"))]
    return [str(path) for path in sorted(found, key=lambda path: ([*long, path.name].index(path.name), path))]


@nox.session(tags=["project"], default=False)
def lint(session: nox.Session) -> None:
    """Lint, format and strict types, and the generated files are up to date."""
    install(session, "requirements.lock", "requirements-lint.lock")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy", "--config-file", "tools/pyproject.toml", env={"MYPYPATH": "tools"})
    session.run("python", "-m", "envops", "docs", "--check", env=FROM_SOURCE)


@nox.session(tags=["project"], default=False)
def bench(session: nox.Session) -> None:
    """Measure what the project promises, and write it down part by part. `-- PART…`, `-- --resume`."""
    install(session, *(f"requirements{part}.lock" for part in ("", "-prime", "-tests")))  # plans, browser
    session.run("python", "benchmarks/bench.py", *session.posargs, env=FROM_SOURCE)


@nox.session(default=False)
def shards(session: nox.Session) -> None:
    """Environments divided among machines. `-- --changed [BASE] --max N --format json` is a matrix for CI."""
    envops(session, "shards")


@nox.session(default=False)
def report(session: nox.Session) -> None:
    """Reports of runs that are over. `-- merge FOLDER` joins those of several machines, `-- open` shows the page."""
    envops(session, "report")


@nox.session(default=False)
def site(session: nox.Session) -> None:
    """The catalogue as static pages in reports/site, from what the last validation wrote. `-- --out FOLDER`"""
    envops(session, "site")


@nox.session(tags=["project"], default=False)
def screenshots(session: nox.Session) -> None:
    """Pictures of report and site for the docs, from made-up environments, by the system's Chromium."""
    install(session, "requirements.lock", "requirements-tests.lock")
    session.run("python", "benchmarks/screenshots.py", *session.posargs, env=FROM_SOURCE)


@nox.session(default=False)
def migrate(session: nox.Session) -> None:
    """Move an environment from verifiers 0.3 to 0.4, and prove that it pays the same. `-- NAME`."""
    envops(session, "migrate")


@nox.session(default=False)
def explain(session: nox.Session) -> None:
    """What a rule checks, why, and how to mend what it finds. `-- RULE`; without it, all rules in short."""
    envops(session, "explain")


@nox.session(default=False)
def doctor(session: nox.Session) -> None:
    """Whether this machine and this repository have what is needed, and what to do. `-- --fix`."""
    envops(session, "doctor")


@nox.session(default=False)
def cache(session: nox.Session) -> None:
    """What .envops/ takes up; `-- --older-than DAYS --max-size GB` prunes it."""
    envops(session, "cache")
