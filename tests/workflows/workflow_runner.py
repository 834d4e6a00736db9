"""Runs a job of a workflow as GitHub would, as far as these workflows go: in a clone, step by step, without GitHub.

Expressions are not evaluated: the caller gives the value of each, and
one without a declared handling is a mistake. Actions are played where that is simple
(checkout, artifacts) and looked at where it is not.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = Path(".github/workflows")
HANDED_OVER = "always() && (inputs.wheels || github.event_name == 'merge_group')"
PUBLISHED = "hashFiles('published/published/*/*.whl') != ''"
VERIFIED = "always() && hashFiles('reports/verified.sha256') != ''"
USUAL = {
    "always()": "true",
    "!cancelled()": "true",
    "github.token": "a-github-token",
    "github.event_name == 'push'": "true",
    "needs.since.outputs.proof || github.run_id": "1",
    "hashFiles('tests/*/test_*.py') != ''": "true",
    HANDED_OVER: "false",
    PUBLISHED: "false",
    VERIFIED: "false",
}

PREPARING = (
    *("actions/setup-python", "actions/cache/restore", "actions/cache/save", "./.github/actions/without-root"),
    *("actions/upload-pages-artifact", "github/codeql-action/upload-sarif"),
)
"""Actions that change only the machine of a job, or send what no other job of these workflows reads."""

NOX = """#!{python}
import os, pathlib, subprocess, sys
arguments = sys.argv[1:]
assert arguments[0] == "-s", arguments
session, rest = arguments[1], arguments[3:]
assert arguments[2:3] in ([], ["--"]), arguments
function = session.replace("-", "_")
assert f"\\ndef {{function}}(" in pathlib.Path("noxfile.py").read_text(), f"noxfile.py has no session {{session}}"
with open(os.environ["STUB_LOG"], "a") as log:
    print(session, *rest, file=log)
if session in ("tests", "learner", "lint", "models", "pages", "warm"):  # no commands of envops
    sys.exit(0)
variables = {{**os.environ, "PYTHONPATH": "tools"}}
parse = "from envops.cli.main import parsed; import sys; parsed(sys.argv[1:])"
if session not in os.environ["STUB_REAL"].split():
    code = subprocess.run([sys.executable, "-c", parse, session, *rest], env=variables).returncode
    pathlib.Path("reports").mkdir(exist_ok=True)
    sys.exit(code)
sys.exit(subprocess.run([sys.executable, "-m", "envops", session, *rest], env=variables).returncode)
"""
PYTHON = """#!{python}
import os, pathlib, sys
arguments = sys.argv[1:]
if arguments[:3] == ["-m", "pip", "install"]:
    assert "--require-hashes" in arguments, arguments
    sys.exit(0 if pathlib.Path(arguments[-1]).is_file() else f"{{arguments[-1]}} is missing")
if arguments[:2] == ["-m", "venv"]:
    folder = pathlib.Path(arguments[2], "bin")
    folder.mkdir(parents=True)
    (folder / "activate").write_text("")
    sys.exit(0)
os.execv(sys.executable, [sys.executable, *arguments])
"""


@dataclass(frozen=True)
class Step:
    """One step that was carried out."""

    what: str
    code: int
    output: str = ""


@dataclass
class Job:
    """The result of a job."""

    name: str
    steps: list[Step] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    sessions: list[str] = field(default_factory=list)
    """The nox sessions that it called, with their arguments."""

    @property
    def passed(self) -> bool:
        return all(step.code == 0 for step in self.steps)

    @property
    def output(self) -> str:
        return "\n".join(f"$ {step.what}\n{step.output}" for step in self.steps)


@dataclass(frozen=True)
class Runner:
    """A place for jobs: the repository that they check out, and the artifacts that they leave to each other."""

    origin: Path
    folder: Path
    real: tuple[str, ...] = ()
    """Sessions that are carried out; of others only the command line is read."""
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    def run(self, workflow: str, name: str, commit: str, says: Mapping[str, str] | None = None) -> Job:
        """Carry out one job at a commit; `says` has the value of each expression."""
        document = load(self.origin, commit, workflow)
        definition, job = document["jobs"][name], Job(name)
        workspace = Path(self.folder) / f"{workflow}-{name}-{len(list(self.folder.iterdir()))}"
        workspace.mkdir(parents=True)
        values = {**USUAL, **(says or {})}
        env = {"GITHUB_SHA": commit, **document.get("env", {}), **definition.get("env", {})}
        outputs: dict[str, str] = {}
        for step in definition["steps"]:
            if not self._due(step, job, values):
                continue
            done = self._carried_out(step, workspace, commit, env, values)
            if not step.get("continue-on-error"):
                job.steps.append(done)
            if "id" in step:
                pairs = (line.split("=", 1) for line in _text(workspace.parent / "output").splitlines())
                outputs |= {f"steps.{step['id']}.outputs.{key}": value for key, value in pairs}
        job.outputs = {key: outputs.get(_inner(text), "") for key, text in definition.get("outputs", {}).items()}
        job.summary, job.sessions = _text(workspace.parent / "summary"), _text(workspace.parent / "log").splitlines()
        for left in ("output", "summary", "log"):
            (workspace.parent / left).unlink(missing_ok=True)
        return job

    def _carried_out(
        self, step: Mapping[str, Any], workspace: Path, commit: str, env: Mapping[str, Any], values: Mapping[str, str]
    ) -> Step:
        if "run" in step:
            return _shell(step["run"], workspace, self._variables(workspace, {**env, **step.get("env", {})}, values))
        if step["uses"].split("@")[0] in PREPARING:
            return Step(step["uses"], 0)
        if not step["uses"].startswith("./"):
            return self._use(step, workspace, commit, values)
        folder = workspace / step["uses"]
        action = yaml.safe_load((folder / "action.yml").read_text())
        defaults = {name: given.get("default", "") for name, given in action.get("inputs", {}).items()}
        inputs = {f"inputs.{key}": str(text) for key, text in {**defaults, **step.get("with", {})}.items()}
        within = {**env, "GITHUB_ACTION_PATH": str(folder)}
        for part in action["runs"]["steps"]:
            if "if" in part and _inner(part["if"]) not in (f"{key} == '{text}'" for key, text in inputs.items()):
                continue
            done = self._carried_out(part, workspace, commit, within, {**values, **inputs})
            if done.code:
                return done
        return Step(step["uses"], 0)

    def _due(self, step: Mapping[str, Any], job: Job, values: Mapping[str, str]) -> bool:
        condition = step.get("if")
        if condition is None:
            return job.passed
        wanted = _value(_inner(str(condition)), values) not in ("", "false")
        return wanted if "always()" in str(condition) or "needs." in str(condition) else wanted and job.passed

    def _use(self, step: Mapping[str, Any], workspace: Path, commit: str, values: Mapping[str, str]) -> Step:
        action, given = step["uses"].split("@")[0], step.get("with", {})
        what = f"{action} {given.get('name', given.get('ref', ''))}"
        resolved = {key: _resolved(str(text), values) for key, text in given.items()}
        if action == "actions/checkout":
            target = workspace / resolved.get("path", ".")
            depth = [] if given.get("fetch-depth") == 0 else ["--depth=1"]
            clone = ["git", "clone", "-q", "--no-single-branch", *depth, self.origin.as_uri(), str(target)]
            subprocess.run(clone, check=True, capture_output=True)
            wanted = resolved.get("ref") or commit
            subprocess.run(["git", "-C", str(target), "fetch", "-q", "origin", wanted], check=True, capture_output=True)
            subprocess.run(["git", "-C", str(target), "checkout", "-q", wanted], check=True, capture_output=True)
        elif action == "actions/upload-artifact":
            if not _upload(workspace, resolved["path"], self.artifacts / resolved["name"]):
                return Step(what, 0, "nothing to upload")
        elif action == "actions/download-artifact":
            found = sorted(self.artifacts.glob(resolved.get("name", resolved.get("pattern", "*"))))
            if not found and "name" in resolved:
                return Step(what, 1, "no such artifact")
            for source in found:  # one alone gets no folder of its own, as the action does since v5
                alone = len(found) == 1 or "merge-multiple" in resolved
                target = workspace / resolved["path"] / ("." if alone else source.name)
                shutil.copytree(source, target, dirs_exist_ok=True)
        elif action == "actions/attest":
            subjects = _text(workspace / resolved["subject-checksums"])
            return Step(what, 0 if subjects else 1, subjects)
        else:
            raise AssertionError(f"{action} is not played here")
        return Step(what, 0)

    def _variables(self, workspace: Path, env: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
        stubs, around = self.folder / "stubs", workspace.parent
        if not stubs.is_dir():
            stubs.mkdir(parents=True)
            for name, text in {"nox": NOX, "python": PYTHON, "python3": PYTHON}.items():
                (stubs / name).write_text(text.format(python=sys.executable))
                (stubs / name).chmod(0o755 | stat.S_IEXEC)
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        usual = {
            "PATH": os.pathsep.join([str(stubs), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(home),
            "ENVOPS_CACHE_DIR": os.environ["ENVOPS_CACHE_DIR"],
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(around / "output"),
            "GITHUB_STEP_SUMMARY": str(around / "summary"),
            "STUB_LOG": str(around / "log"),
            "STUB_REAL": " ".join(self.real),
        }
        own = {key: _resolved(str(text), values) for key, text in env.items()}
        return {**usual, **self.variables, **own}


def load(repository: Path, commit: str, workflow: str) -> dict[str, Any]:
    """A workflow as it is at a commit; `on` is a boolean in YAML 1.1 and is put right."""
    command = ["git", "-C", str(repository), "show", f"{commit}:{FOLDER / workflow}"]
    return parsed(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def parsed(text: str) -> dict[str, Any]:
    """A workflow from its text."""
    document = yaml.safe_load(text)
    document["on"] = document.pop(True)
    return dict(document)


def workflows() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every workflow of this repository, by file name."""
    for path in sorted((ROOT / FOLDER).glob("*.yml")):
        yield path.name, parsed(path.read_text())


def _shell(command: str, workspace: Path, variables: Mapping[str, str]) -> Step:
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", command],
        cwd=workspace,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return Step(command, done.returncode, done.stdout + done.stderr)


def _upload(workspace: Path, patterns: str, target: Path) -> bool:
    """Copy what the patterns find, as the action would: below what the patterns have in common before a wildcard."""
    wanted = [line.strip().rstrip("/") for line in patterns.strip().splitlines()]
    common = Path(os.path.commonpath([re.split(r"/[^/]*\*", pattern)[0] for pattern in wanted]))
    start = workspace / common if (workspace / common).is_dir() else (workspace / common).parent
    found = [path for pattern in wanted for path in sorted(workspace.glob(pattern))]
    files = [
        each for path in found for each in ([path] if path.is_file() else sorted(path.rglob("*"))) if each.is_file()
    ]
    for path in files:
        place = target / path.relative_to(start)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    return bool(files)


def _inner(text: str) -> str:
    found = re.fullmatch(r"\s*\$\{\{(.*)\}\}\s*", text)
    return (found[1] if found else text).strip()


def _value(expression: str, values: Mapping[str, str]) -> str:
    assert expression in values, f"no value is declared for {expression!r}"
    return values[expression]


def _resolved(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: _value(found[1].strip(), values), text)


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
