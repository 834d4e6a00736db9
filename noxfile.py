"""The entry point for people and CI: every session is a thin call of `envwright` or of one tool.

    nox -s validate                         prove every environment
    nox -s validate -- reverse-text         prove one
    nox -s envwright -- explain RWD005      any command of the tool
    nox -s tests                            the project's own tests

Arguments behind `--` go to the command; `nox -s envwright -- --help` shows them all.
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

    `envwright` refuses the same of .envwright and reports (`packages/git.py`).
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
    "ENVWRIGHT_STARTED_BY": "nox",  # which installs the extra packages that a command needs
}
ENVIRONMENTS = {
    "envwright": ("requirements.lock", "requirements-prices.lock"),
    "store": ("requirements.lock", "requirements-prices.lock", "requirements-store.lock"),
    "prime": ("requirements.lock", "requirements-prices.lock", "requirements-prime.lock"),
    "inspect": ("requirements.lock", "requirements-inspect.lock"),
    "lint": ("requirements.lock", "requirements-lint.lock"),
    "pages": ("requirements.lock", "requirements-pages.lock"),
    "tests": tuple(
        f"requirements{part}.lock" for part in ("", "-prime", "-prices", "-inspect", "-store", "-tests", "-pages")
    ),
    "trl": ("requirements.lock", "requirements-train.lock"),
    "learner": tuple(f"requirements{part}.lock" for part in ("", "-tests", "-train")),
}
"""Virtual environments in .nox/, and the packages of each."""
USUAL = "store" if os.environ.get("ENVWRIGHT_STORE") else "envwright"
"""The environment of most commands: a shared store needs a few packages more."""
EXTRAS = {"inspect": "inspect", "new": "inspect", "store": "store"} | dict.fromkeys(
    ("plan", "release", "rehearse", "watch", "diagnose"), "prime"
)
"""The environments of commands that need more packages than most."""
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@\S+)?")

FAILED: list[int] = []
"""Exit codes of commands that failed."""


@atexit.register
def exit_as_commands_did() -> None:
    """Exit with the code of the commands that failed, if it is the same for all; nox exits with 1 for each code."""
    if len(set(FAILED)) == 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(FAILED[0])


def call(session: nox.Session, *command: str) -> None:
    """Run one of the tool's commands, in the environment that has the packages it needs."""
    run(session, environment_of(session, *command), "python", "-m", "envwright", *command)


def environment_of(session: nox.Session, command: str = "", *arguments: str) -> str:
    """The environment that a command needs for these arguments."""
    results = [each.partition("run:")[2].partition("@")[0] for each in arguments if "run:" in each]
    if command == "train":
        return environment_of_training(session, *arguments)
    if command == "compare" and results:
        return environment_of_training(session, "serve", results[0])
    if command == "distribution" and arguments[:1] == ("hosted",):
        return "prime"
    if command == "doctor" and any(each.startswith("--for") for each in arguments):
        return "prime"  # it fails where a release would, which has the CLI
    if command == "adopt" and any(HUB_NAME.fullmatch(one) and not Path(one).is_dir() for one in arguments):
        return "prime"
    return EXTRAS.get(command, USUAL)


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
    call(session, "validate", *session.posargs)


@nox.session(tags=["gates"], default=False)
def schema(session: nox.Session) -> None:
    """One gate: declaration, package, wheel, loading, data."""
    call(session, "schema", *session.posargs)


@nox.session(tags=["gates"], default=False)
def rewards(session: nox.Session) -> None:
    """One gate: the rewards of right and wrong replies. `-- diff`, `-- explain`, `-- reply`."""
    call(session, "rewards", *session.posargs)


@nox.session(tags=["gates"], default=False)
def smoke(session: nox.Session) -> None:
    """One gate: a real evaluation against scripted policies, or with a model. `-- NAME --model M`."""
    call(session, "smoke", *session.posargs)


@nox.session(tags=["gates"], default=False)
def distribution(session: nox.Session) -> None:
    """One gate: whether the rewards leave something to learn. `-- results NAME FILE`, `-- hosted NAME`."""
    call(session, "distribution", *session.posargs)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Publish the planned changes, on passing evidence. `-- --dry-run`, `-- --evidence FILE`."""
    call(session, "release", *session.posargs)


@nox.session(default=False)
def envwright(session: nox.Session) -> None:
    """Run any command of the tool. `-- new NAME --data FILE`, `-- explain RWD005`, `-- --help`."""
    call(session, *session.posargs)


@nox.session(tags=["project"], default=False)
def docs(session: nox.Session) -> None:
    """Write the generated files: CODEOWNERS, pages and tables in docs, the registry's schema. `-- --check` in CI."""
    call(session, "docs", *session.posargs)


@nox.session(default=False)
def train(session: nox.Session) -> None:
    """Submit the training runs that are due, or train one here. `-- --dry-run`, `-- compile`, `-- probe NAME`."""
    call(session, "train", *session.posargs)


def environment_of_training(session: nox.Session, *arguments: str) -> str:
    """The environment that `train` needs for these arguments."""
    program = str(installed(session, "envwright") / "python")
    asked = ["-m", "envwright", "ci", "requirements", "--", *arguments]
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


@nox.session(tags=["project"], default=False)
def tests(session: nox.Session) -> None:
    """The project's own tests, side by side; `-- --slow`: those marked slow; other arguments go to pytest."""
    # one more than there are cores: at two processes the cores idled for a quarter of the time, as tests wait
    processes = str((os.cpu_count() or 1) + 1)
    selected = ["-m", "slow"] if "--slow" in session.posargs else []
    arguments = [argument for argument in session.posargs if argument != "--slow"]
    arguments = arguments or ["-n", processes, "--dist", "loadfile", "--no-loadscope-reorder", *longest_first()]
    # what earlier checkouts of this user compiled must not change what tests find
    cache = str(installed(session, "tests").parent / "cache")
    run(session, "tests", "pytest", *selected, *arguments, ENVWRIGHT_CACHE_DIR=cache)


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
    long = ["defects", "cli", "validation", "attacks", "training", "release"]
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


@nox.session(tags=["project"], default=False)
def pages(session: nox.Session) -> None:
    """The documentation and, beside it, the catalogue, as static pages in reports/site. `-- --private`"""
    run(session, "pages", "python", "-m", "docs_site", *session.posargs)


@nox.session(tags=["project"], default=False)
def screenshots(session: nox.Session) -> None:
    """Pictures of terminal, report and site for README and docs, by the system's Chromium."""
    run(session, "tests", "python", "benchmarks/screenshots.py", *session.posargs)
