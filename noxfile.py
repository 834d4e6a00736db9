"""The entry point for people and CI: every session is a thin call of `envwright` or of one tool.

    nox -s validate                    prove every environment
    nox -s validate -- reverse-text    prove one
    nox -s tests                       the project's own tests

Arguments behind `--` go to the command; `nox -s validate -- --help` shows them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nox

with contextlib.suppress(OSError, AttributeError):  # Linux: what runs below may not read this process's variables
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)


def refuse_committed_programs() -> None:
    """Exit where git tracks files in .nox: a commit may not bring the programs that run here.

    `envwright` refuses the same of .envwright and reports (`repository/committed_results.py`).
    """
    here = Path.cwd()
    if not any(os.path.lexists(folder / ".git") for folder in (here, *here.parents)):
        return
    command = ["git", "--icase-pathspecs", "ls-files", "--", ".nox"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        said = "git is not installed: install it"
    else:
        tracked = listed.stdout.splitlines()
        said = f"{tracked[0]} is tracked by git: git rm -r --cached .nox" if tracked else listed.stderr.strip()
    if said:
        print(f"nothing was run: {said}", file=sys.stderr)
        sys.exit(2)


refuse_committed_programs()
nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "none"  # sessions that need the same packages share an environment
nox.options.sessions = ["validate"]

FROM_SOURCE = {
    "PYTHONPATH": "tools",  # nothing to build, so nothing to fetch once the locks are installed
    "ENVWRIGHT_STARTED_BY": "nox",  # messages name sessions, because `envwright` is not installed
}
ENVIRONMENTS = {
    "envwright": ("requirements.lock",),
    "store": ("requirements.lock", "requirements-store.lock"),
    "prime": ("requirements.lock", "requirements-prime.lock"),
    "inspect": ("requirements.lock", "requirements-inspect.lock"),
    "lint": ("requirements.lock", "requirements-lint.lock"),
    "pages": ("requirements.lock", "requirements-pages.lock"),
    "tests": tuple(f"requirements{part}.lock" for part in ("", "-prime", "-inspect", "-store", "-tests", "-pages")),
    "trl": ("requirements.lock", "requirements-train.lock"),
    "learner": tuple(f"requirements{part}.lock" for part in ("", "-tests", "-train")),
}
"""Virtual environments in .nox/, and the packages of each."""
USUAL = "store" if os.environ.get("ENVWRIGHT_STORE") else "envwright"
"""The environment of most commands: a shared store needs a few packages more."""
HOSTED = {"hosted", "--hosted"}
"""Arguments of `distribution` that call the prime CLI."""


FAILED: list[int] = []
"""Exit codes of commands that failed."""


@atexit.register
def exit_as_commands_did() -> None:
    """Exit with the code of the commands that failed, if it is the same for all; nox exits with 1 for each code."""
    if len(set(FAILED)) == 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(FAILED[0])


def envwright(session: nox.Session, command: str, environment: str = USUAL) -> None:
    """Run one of the tool's commands in one of the environments."""
    run(session, environment, "python", "-m", "envwright", command, *session.posargs)


def run(session: nox.Session, environment: str, program: str, *arguments: str, **variables: str) -> None:
    """Run a program of one of the environments, whose programs come first on PATH."""
    programs = installed(session, environment)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    active = {"PATH": path, "VIRTUAL_ENV": str(programs.parent)}
    try:
        session.run(str(programs / program), *arguments, env={**FROM_SOURCE, **active, **variables}, external=True)
    except nox.command.CommandFailed as error:
        FAILED.append(getattr(error, "return_code", None) or 1)  # older releases of nox have no code
        raise


def installed(session: nox.Session, environment: str) -> Path:
    """The programs of an environment. It is installed first if it is missing or its files have changed."""
    files = [Path("tools", name) for name in ENVIRONMENTS[environment]]
    wanted = hashlib.sha256(sys.version.encode() + b"".join(file.read_bytes() for file in files)).hexdigest()
    folder = Path(session.cache_dir).absolute().parent / environment
    interpreter, digest = folder / "bin" / "python", folder / "installed.txt"
    folder.mkdir(exist_ok=True)
    with (folder.parent / f"{environment}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two sessions that start at once install once
        if not interpreter.exists() or not digest.exists() or digest.read_text() != wanted:
            digest.unlink(missing_ok=True)
            install(session, interpreter, files)
            digest.write_text(wanted)
    return interpreter.parent


def install(session: nox.Session, interpreter: Path, files: list[Path]) -> None:
    """Make an environment with exactly the packages that the files name."""
    uv = uv_program()
    folder = interpreter.parents[1]
    made = folder / "pyvenv.cfg"
    if not made.exists() or f"version_info = {platform.python_version()}\n" not in made.read_text():
        session.run_install(uv, "venv", "--quiet", "--clear", "-p", sys.executable, str(folder), external=True)
    synced = ["pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode", "-p", str(interpreter)]
    hashes_of_builds = ["--build-constraints", "tools/requirements-nox.lock"]
    session.run_install(uv, *synced, *hashes_of_builds, *map(str, files), external=True)


def uv_program() -> str:
    """The uv that was installed beside nox, or the one of this machine."""
    return shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"


@nox.session(tags=["gates"])
def validate(session: nox.Session) -> None:
    """Run all gates on environments, offline, without a key. `-- NAME…`, `-- --changed [BASE]`."""
    envwright(session, "validate")


@nox.session(tags=["gates"], default=False)
def schema(session: nox.Session) -> None:
    """One gate: declaration, package, wheel, loading, data."""
    envwright(session, "schema")


@nox.session(tags=["gates"], default=False)
def rewards(session: nox.Session) -> None:
    """One gate: the rewards of right and wrong replies. `-- diff`, `-- explain`, `-- reply`."""
    envwright(session, "rewards")


@nox.session(tags=["gates"], default=False)
def smoke(session: nox.Session) -> None:
    """One gate: a real evaluation against scripted policies, or with a model. `-- NAME --endpoint E`."""
    envwright(session, "smoke")


@nox.session(tags=["gates"], default=False)
def distribution(session: nox.Session) -> None:
    """One gate: whether the rewards leave something to learn. `-- results NAME FILE`, `-- hosted NAME`."""
    envwright(session, "distribution", "prime" if HOSTED & {*session.posargs} else "envwright")


@nox.session(default=False)
def init(session: nox.Session) -> None:
    """Write the files of a repository of environments. `-- [FOLDER] --owner SLUG`."""
    envwright(session, "init")


@nox.session(default=False)
def upgrade(session: nox.Session) -> None:
    """Renew the files that `init` wrote, without touching what was edited. `-- --check`."""
    envwright(session, "upgrade")


@nox.session(default=False)
def prepare(session: nox.Session) -> None:
    """Download the data that environments declare, once. `-- NAME…`; the gates stay offline and read it."""
    envwright(session, "prepare")


@nox.session(default=False)
def inspect(session: nox.Session) -> None:
    """Describe a dataset, and the environment that fits it. `-- FILE`, `-- FOLDER`, `-- OWNER/DATASET`."""
    envwright(session, "inspect", "inspect")


@nox.session(default=False)
def new(session: nox.Session) -> None:
    """Write an environment that passes all gates, to build on. `-- NAME --data FILE`."""
    envwright(session, "new", "inspect")


@nox.session(default=False)
def adopt(session: nox.Session) -> None:
    """Bring in environments from elsewhere. `-- FOLDER`, `-- https://…/repository@ref#path`, `-- owner/name`."""
    from_hub = [
        one for one in session.posargs if re.fullmatch(r"[\w.-]+/[\w.-]+(@\S+)?", one) and not Path(one).is_dir()
    ]
    envwright(session, "adopt", "prime" if from_hub else "envwright")


@nox.session(default=False)
def record(session: nox.Session) -> None:
    """Evaluate once and keep the rollouts and their baseline. `-- NAME --endpoint E`, or `--policy blend`."""
    envwright(session, "record")


@nox.session(default=False)
def test(session: nox.Session) -> None:
    """Run an environment's own tests and cases with pytest. `-- NAME [PYTEST ARGUMENTS]`."""
    envwright(session, "test")


@nox.session(default=False)
def cases(session: nox.Session) -> None:
    """Write the cases that findings show into tests/cases.yaml. `-- add NAME [RULE|CASE…] [--dry-run]`."""
    envwright(session, "cases")


@nox.session(default=False)
def emulator(session: nox.Session) -> None:
    """A Hub on loopback, until Ctrl-C. `-- --port P`, `-- --fault F`, `-- --assumptions`."""
    envwright(session, "emulator")


@nox.session(default=False)
def rehearse(session: nox.Session) -> None:
    """Rehearse a merge on loopback, without a key: prove, publish, submit runs. `-- NAME…`, `-- --fault F`."""
    envwright(session, "rehearse", "prime")


@nox.session(default=False)
def together(session: nox.Session) -> None:
    """Install all environments into one place and import them. `-- NAME…` for some."""
    envwright(session, "together")


@nox.session(default=False)
def comment(session: nox.Session) -> None:
    """The one comment of a pull request, in a workflow. `-- FOLDER`, `-- FOLDER --dry-run`."""
    envwright(session, "comment")


@nox.session(default=False)
def claim(session: nox.Session) -> None:
    """Allow an evaluation once per commit, in a workflow. `-- PULL_REQUEST`."""
    envwright(session, "claim")


@nox.session(name="past-run", default=False)
def past_run(session: nox.Session) -> None:
    """The id of an earlier run of a workflow, in a workflow. `-- WORKFLOW`, `-- WORKFLOW --queued COMMIT BASE`."""
    envwright(session, "past-run")


@nox.session(default=False)
def propose(session: nox.Session) -> None:
    """A pull request with the locks that differ, in a workflow. `-- --dry-run`."""
    envwright(session, "propose")


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Resolve every environment's requirements.lock again, and the tool's own. `-- NAME…` for some."""
    envwright(session, "lock")


@nox.session(default=False)
def plan(session: nox.Session) -> None:
    """Show the changes that a release would publish; changes nothing. `-- --changed [BASE]`, `-- --format markdown`."""
    envwright(session, "plan", "prime")


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Publish the planned changes, on passing evidence. `-- --dry-run`, `-- --evidence FILE`."""
    envwright(session, "release", "prime")


@nox.session(default=False)
def bump(session: nox.Session) -> None:
    """Raise the version of environments by one step. `-- NAME… [--minor] [--above VERSION]`."""
    envwright(session, "bump")


@nox.session(tags=["project"], default=False)
def docs(session: nox.Session) -> None:
    """Write the generated files: CODEOWNERS, pages and tables in docs, the registry's schema. `-- --check` in CI."""
    envwright(session, "docs")


@nox.session(default=False)
def train(session: nox.Session) -> None:
    """Submit the training runs that are due, or train one here. `-- --dry-run`, `-- compile`, `-- probe NAME`."""
    envwright(session, "train", environment_of_training(session, *session.posargs))


def environment_of_training(session: nox.Session, *arguments: str) -> str:
    """The environment that `train` needs for these arguments."""
    program = str(installed(session, "envwright") / "python")
    asked = ["-m", "envwright", "train", "requirements", "--", *arguments]
    needed = str(session.run(program, *asked, env=FROM_SOURCE, silent=True, external=True))
    return "trl" if needed.strip() == "train" else "prime"


@nox.session(default=False, venv_backend="uv")  # always the newest packages, so in an environment of its own
def models(session: nox.Session) -> None:
    """Copy the models that trainers know by name from their packages. `-- --check` only shows the difference."""
    session.install("--upgrade", "--no-deps", "renderers", "tinker-cookbook")  # only their tables are read
    session.run("python", "tools/envwright/training/copy_known_models.py", *session.posargs)


@nox.session(tags=["project"], default=False)
def trainers(session: nox.Session) -> None:
    """Check runs with the trainers' own code. `-- CHECKOUT… [--only TRAINER] [--write]`."""
    run(session, "envwright", "python", "tests/training/upstream/trainers_session.py", *session.posargs)


@nox.session(default=False)
def watch(session: nox.Session) -> None:
    """Follow a training run: curves, rollouts, checkpoints. `-- RUN [--follow]`."""
    envwright(session, "watch", "prime")


@nox.session(default=False)
def diagnose(session: nox.Session) -> None:
    """Name the problems of a training run, and the change that fixes each. `-- RUN|METRICS`."""
    envwright(session, "diagnose", "prime")


@nox.session(default=False)
def compare(session: nox.Session) -> None:
    """Before and after training, paired by task. `-- NAME --before E --after E`; files and recordings are sides too."""
    results = [each.partition("run:")[2].partition("@")[0] for each in session.posargs if "run:" in each]
    envwright(session, "compare", environment_of_training(session, "serve", results[0]) if results else USUAL)


@nox.session(default=False)
def optimize(session: nox.Session) -> None:
    """Search for a better system prompt, by GEPA. `-- NAME --endpoint E [--max-calls N] [--max-cost D] [--write]`."""
    envwright(session, "optimize")


@nox.session(tags=["project"], default=False)
def tests(session: nox.Session) -> None:
    """The project's own tests, side by side; arguments go to pytest."""
    # one more than there are cores: at two processes the cores idled for a quarter of the time, as tests wait
    processes = str((os.cpu_count() or 1) + 1)
    side_by_side = ["-n", processes, "--dist", "loadfile", "--no-loadscope-reorder", *longest_first()]
    # what earlier checkouts of this user compiled must not change what tests find
    cache = str(installed(session, "tests").parent / "cache")
    run(session, "tests", "pytest", *(session.posargs or side_by_side), ENVWRIGHT_CACHE_DIR=cache)


@nox.session(tags=["project"], default=False)
def bounds(session: nox.Session) -> None:
    """Run tests with the oldest or newest allowed packages: `-- lowest-direct PATH…`, `-- highest PATH…`."""
    resolution, *tests = session.posargs
    folder = Path(session.cache_dir).absolute().parent / f"bounds-{resolution}"
    uv, python = uv_program(), folder / "bin" / "python"
    session.run_install(uv, "venv", "--quiet", "--clear", "-p", sys.executable, str(folder), external=True)
    wanted = ["-r", "tools/pyproject.toml", "--group", "tools/pyproject.toml:tests", "--resolution", resolution]
    session.run_install(uv, "pip", "install", "--quiet", "-p", str(python), *wanted, external=True)
    session.run(str(python), "-m", "pytest", *tests, env=FROM_SOURCE, external=True)


@nox.session(tags=["project"], default=False)
def learner(session: nox.Session) -> None:
    """Run the tests that need torch, TRL or another trainer's packages, on a CPU; arguments go to pytest."""
    cache = str(installed(session, "learner").parent / "cache")
    # one after the other: a probe has a limit of time, which it would share with the tests beside it
    run(session, "learner", "pytest", "-m", "torch", *session.posargs, ENVWRIGHT_CACHE_DIR=cache)


def longest_first() -> list[str]:
    """The folders of tests, the slowest first, so that no core is idle at the end."""
    long = ["defects", "docs", "authoring", "e2e", "workflows", "validation"]
    found = [path for path in Path("tests").iterdir() if path.match("test_*.py") or any(path.rglob("test_*.py"))]
    return [str(path) for path in sorted(found, key=lambda path: ([*long, path.name].index(path.name), path))]


@nox.session(tags=["project"], default=False)
def lint(session: nox.Session) -> None:
    """Check lint, format, strict types, and that the generated files are up to date."""
    run(session, "lint", "ruff", "check", ".")
    run(session, "lint", "ruff", "format", "--check", ".")
    run(session, "lint", "mypy", "--config-file", "tools/pyproject.toml", MYPYPATH="tools", PYTHONPATH="")
    run(session, "lint", "python", "-m", "envwright", "docs", "--check")


@nox.session(tags=["project"], default=False)
def bench(session: nox.Session) -> None:
    """Measure what the project promises, part by part. `-- PART…`, `-- --resume`."""
    run(session, "tests", "python", "benchmarks/bench.py", *session.posargs)


@nox.session(default=False)
def shards(session: nox.Session) -> None:
    """Environments divided among machines. `-- --changed [BASE] --max N --format json` is a matrix for CI."""
    envwright(session, "shards")


@nox.session(default=False)
def report(session: nox.Session) -> None:
    """Reports of past runs. `-- merge FOLDER` joins those of several machines, `-- open` shows the page."""
    envwright(session, "report")


@nox.session(default=False)
def view(session: nox.Session) -> None:
    """Conversations of results in the browser, until Ctrl-C. `-- FILE`, `-- NAME`, `-- FILE --out PAGE`."""
    envwright(session, "view")


@nox.session(default=False)
def site(session: nox.Session) -> None:
    """The catalogue as static pages in reports/site, from the results of the last validation. `-- --out FOLDER`"""
    envwright(session, "site")


@nox.session(tags=["project"], default=False)
def pages(session: nox.Session) -> None:
    """The documentation and, beside it, the catalogue, as static pages in reports/site. `-- --private`"""
    run(session, "pages", "python", "-m", "docs_site", *session.posargs)


@nox.session(tags=["project"], default=False)
def screenshots(session: nox.Session) -> None:
    """Pictures of terminal, report and site for README and docs, by the system's Chromium."""
    run(session, "tests", "python", "benchmarks/screenshots.py", *session.posargs)


@nox.session(default=False)
def migrate(session: nox.Session) -> None:
    """Move an environment from verifiers 0.3 to 0.4, and test that its rewards stay the same. `-- NAME`."""
    envwright(session, "migrate")


@nox.session(default=False)
def explain(session: nox.Session) -> None:
    """Explain a rule: its check, its reason, and the fix of its findings. `-- RULE`; without it, a line for each
    rule."""
    envwright(session, "explain")


@nox.session(default=False)
def doctor(session: nox.Session) -> None:
    """Check this machine and suggest fixes. `-- --fix`."""
    envwright(session, "doctor")


@nox.session(default=False)
def store(session: nox.Session) -> None:
    """The shared store of ENVWRIGHT_STORE. `-- key NAME`, `-- push`, `-- status`."""
    envwright(session, "store", "store")


@nox.session(default=False)
def cache(session: nox.Session) -> None:
    """Show the size of the cache; `-- --older-than DAYS --max-size GB` prunes it, `-- warm` fills uv's cache."""
    envwright(session, "cache")
