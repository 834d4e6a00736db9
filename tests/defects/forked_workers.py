"""Workers that are forked from one process per generation, which imported verifiers already."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from envops.declare.package import AnswerDeclaration, Package, RewardDeclaration
from envops.declare.registry import EnvironmentEntry
from envops.declare.source import read_source
from envops.judge.engine import Finding, Gate, Subject, findings
from envops.observe.collected import Collected
from envops.observe.facts import Facts, Failure
from envops.observe.observation import Watcher, _Observer
from envops.observe.process import Confinement, StageFailed, checked, worker_environment
from envops.observe.requests import Wish
from envops.observe.starting import WORKER_FOLDER
from envops.observe.venv import VirtualEnvironment, venv_for
from envops.observe.workspace import Workspace
from planted import Planted

REPOSITORY = Path(__file__).parents[2]
LOCKS = {"v0": "date_arithmetic", "v1": "word_problems"}
SECONDS = 60.0
SEARCHED = ("RWD085", "RWD086", "RWD087")
"""What only a search finds; it takes seconds, so it is left out elsewhere."""
FORKING = """
import importlib.util as u, os, signal, socket, sys
folder, address, generation = sys.argv[1:4]
s = u.spec_from_file_location("envops_worker", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["envops_worker"] = m = u.module_from_spec(s)
s.loader.exec_module(m)
if generation == "v1":
    import verifiers.v1
else:
    import datasets, verifiers
    verifiers.Environment
from envops_worker import main, operations
listener = socket.socket(socket.AF_UNIX)
listener.bind(address)
listener.listen(8)
print("ready", flush=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        os.setsid()
        path = b""
        while not path.endswith(b"\\n"):
            path += connection.recv(1)
        sys.path.insert(0, path.decode().strip())
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        connection.close()
        main.serve()
    connection.close()
"""


class Fork:
    """One worker; asked as `WorkerProcess` is."""

    def __init__(self, address: Path, overlay: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(SECONDS)
        self._socket.connect(str(address))
        self._socket.sendall(f"{overlay}\n".encode())
        self._answers = self._socket.makefile("rb")
        self._requests = 0

    def request(self, operation: str, within: float, **parameters: Any) -> Iterator[tuple[str, Any]]:  # noqa: ARG002
        self._requests += 1
        asked = {"id": self._requests, "operation": operation, **parameters}
        self._socket.sendall(json.dumps(asked, default=str).encode() + b"\n")
        for line in self._answers:
            answer = json.loads(line)
            if answer.get("id") != self._requests:
                continue
            if answer["event"] == "done":
                return
            if answer["event"] == "failed":
                raise StageFailed(checked(Failure, answer["failure"]))
            yield answer["kind"], answer["value"]
        raise AssertionError(f"the worker died in {operation}")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


class Forking:
    """The process that workers of one generation are forked from."""

    def __init__(self, generation: str, folder: Path, workspace: Workspace) -> None:
        self.workspace = workspace
        lock = REPOSITORY / "environments" / LOCKS[generation] / "requirements.lock"
        self.venv: VirtualEnvironment = venv_for(lock, workspace, threading.Event())
        self.address = folder / f"{generation}.socket"
        scratch = folder / generation
        scratch.mkdir()
        self._process = subprocess.Popen(
            [self.venv.python, "-s", "-P", "-c", FORKING, WORKER_FOLDER, self.address, generation],
            cwd=scratch,
            env=worker_environment(self.venv, scratch, scratch, Confinement({})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def observed(self, each: Planted, folder: Path) -> tuple[Package, Facts]:
        """The environment written down and looked at, as `envops rewards` does."""
        package = written(each, folder)
        entry = EnvironmentEntry(package.name)
        collected = Collected()
        watcher = Watcher(lambda _stage: None, lambda _done, _all: None)
        wish = Wish(evaluate=False)
        observer = _Observer(entry, package, self.workspace, wish, watcher, threading.Event(), collected, None)
        worker: Any = Fork(self.address, folder)
        with contextlib.closing(worker), contextlib.suppress(StageFailed):
            observer._begin_mutation = lambda *_: None  # type: ignore[method-assign]
            if not any(rule in SEARCHED for rule in each.rules):
                observer._begin_search = lambda *_: None  # type: ignore[method-assign]
            observer._ask_everything(worker, folder)
        observer._ask_other_seed(self.venv, folder, Confinement({}))
        return package, collected.facts(package.name, "key", package.digest)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def written(each: Planted, folder: Path) -> Package:
    """The package on disk, and as it is declared."""
    module = folder / f"{each.module}.py"
    module.write_text(each.code(), encoding="utf-8")
    if each.oracle is not None:
        (folder / "tests").mkdir()
        (folder / "tests" / "oracle.py").write_text(each.oracle, encoding="utf-8")
    return Package(
        name=each.module.replace("_", "-"),
        folder=folder,
        module=each.module,
        generation=each.generation,
        has_oracle=each.oracle is not None,
        reward=RewardDeclaration(**each.reward),
        answer=replace(AnswerDeclaration(), **each.answer),
        files=(module.name,),
        version="0.1.0",
        description="An environment of the suite.",
        tags=("suite",),
        requires_python=">=3.11",
        requires=(),
        build_requires=(),
        build_backend="hatchling.build",
        readme=None,
        digest="sha256:suite",
        notes=read_source(folder, folder, each.module, [module.name])[0].notes,
    )


def found_in(package: Package, facts: Facts, *gates: Gate) -> list[Finding]:
    """What the rules of the gates find."""
    return list(findings(Subject(EnvironmentEntry(package.name), package, facts), gates))


def in_short(found: list[Finding], facts: Facts) -> str:
    """For a failed assertion: what was found, and what broke."""
    lines = [f"{finding.rule} {finding.severity}: {finding.message}" for finding in found]
    broken = [f"{stage}: {failure.type}: {failure.message}" for stage, failure in facts.failures.items()]
    return "\n".join([*lines, *broken]) or "nothing"
