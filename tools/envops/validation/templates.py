"""The processes of environments: what imports verifiers once per lock, and what jobs are forked from.

    lock template ──► base ──► environment template ──► jobs
                        └────► tool servers, jobs that load by themselves

docs/architecture.md says what each of them has done, what it shares, and what happens when it dies.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from envops.facts.limits import LOAD_SECONDS, TASKS_SCORED
from envops.facts.observed import Failure, JobOrigin, Stage, Started
from envops.repository.package import Package
from envops.repository.workspace import Workspace
from envops.system.subprocesses import Interrupted
from envops.validation.job import MARK, Confinement, Job, WorkerLost, marked_processes, worker_environment
from envops.validation.memory import MemoryWatch
from envops.validation.starting import ForkedProcess, NotForked, connected, fork, new_process, pipe
from envops.validation.venv import VirtualEnvironment

MOST_TEMPLATES = 6
"""Of locks, in one run: each holds an import of verifiers in memory, some 200 MB."""
LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 1.0
SITE_MODULES = {"sitecustomize.py", "usercustomize.py", "sitecustomize", "usercustomize"}


@dataclass(frozen=True)
class Base:
    """The process of an environment that everything else of it is forked from."""

    control: socket.socket
    process: subprocess.Popen[bytes] | ForkedProcess
    """Its supervisor."""
    open: ExitStack

    def end(self) -> None:
        """End it and everything that was forked from it."""
        self.open.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE_SECONDS)


class ImportingProcess:
    """A process that imports verifiers, or has done so: a lock template, or the base of one environment."""

    def __init__(
        self,
        venv: VirtualEnvironment,
        folder: Path,
        environment: Mapping[str, str],
        role: Literal["template", "base"],
        generation: str,
        *,
        allow_network: bool = False,
    ) -> None:
        self._asking = threading.Lock()
        self._refusal: str | None = None
        asked = {"role": role, "generation": generation, "allow_network": allow_network}
        begin = partial(new_process, venv.python, folder, environment, asked)
        self.base = _controlled(begin)

    def refusal(self, stop: threading.Event) -> str:
        """Why forks of it would not be sound, or nothing. Raises `Interrupted` when `stop` is set meanwhile."""
        with self._asking:
            deadline = time.monotonic() + LOAD_SECONDS
            while self._refusal is None:
                if stop.is_set():
                    raise Interrupted
                if time.monotonic() > deadline:
                    self._refusal = f"verifiers was not imported within {LOAD_SECONDS:g} s"
                elif select.select([self.base.control], [], [], LOOK_SECONDS)[0]:
                    self._refusal = "the process that imports verifiers ended"
                    with suppress(OSError, ValueError):
                        self._refusal = str(json.loads(self.base.control.recv(1 << 16))["refusal"])
            return self._refusal

    @property
    def serves(self) -> bool:
        """Whether it forks, or may do so yet."""
        return not self._refusal

    def fork_base(self, environment: Mapping[str, str], folder: Path, overlay: Path) -> Base:
        """The base of an environment. Raises `NotForked` where none comes."""
        settings = {"environment": dict(environment), "folder": str(folder), "overlay": str(overlay.resolve())}
        return _controlled(lambda given: fork(self.base.control, settings, given), lifeline="supervised")


def _controlled(
    begin: Callable[[Mapping[str, int]], subprocess.Popen[bytes] | ForkedProcess], lifeline: str = "lifeline"
) -> Base:
    """A process that `begin` makes with a control socket and a lifeline, which goes by this name."""
    with ExitStack() as theirs, ExitStack() as ours:
        control, given = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.enter_context(control)
        theirs.enter_context(given)
        watched, _ = pipe(theirs, ours)
        process = begin({"control": given.fileno(), lifeline: watched})
        return Base(control, process, ours.pop_all())


@dataclass(frozen=True)
class Origin:
    """From what the base of an environment is forked; without a template, why it imports verifiers itself."""

    template: ImportingProcess | None = None
    reason: str = ""


class LockTemplates:
    """The lock templates of one run, begun when they are first needed; use as a context manager."""

    def __init__(self, workspace: Workspace, stop: threading.Event) -> None:
        self._workspace = workspace
        self._stop = stop
        self._templates: dict[tuple[str, str, int], ImportingProcess | None] = {}
        self._bookkeeping = threading.Lock()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def begin(self, venv: VirtualEnvironment, package: Package, confinement: Confinement) -> bool:
        """Let the template of this environment import from now on; whether it will have one."""
        if _reason_against(package, confinement):
            return False
        return self._begun(venv, package.generation or "v1", confinement.hash_seed) is not None

    def origin(self, venv: VirtualEnvironment, package: Package, overlay: Path, confinement: Confinement) -> Origin:
        """From what this environment's base is to be forked.

        Raises `Interrupted` when the run is cancelled while a template imports.
        """
        if reason := _reason_against(package, confinement) or reason_in_wheel(venv, overlay):
            return Origin(reason=reason)
        template = self._begun(venv, package.generation or "v1", confinement.hash_seed)
        if template is None:
            return Origin(reason=f"{MOST_TEMPLATES} other locks have a template already")
        refusal = template.refusal(self._stop)
        return Origin(reason=refusal) if refusal else Origin(template)

    def _begun(self, venv: VirtualEnvironment, generation: str, hash_seed: int) -> ImportingProcess | None:
        """The template of a virtual environment, one for all who ask; `None` where there are too many others."""
        key = (venv.folder.name, generation, hash_seed)
        with self._bookkeeping:
            if key not in self._templates:
                room = sum(one is not None and one.serves for one in self._templates.values()) < MOST_TEMPLATES
                self._templates[key] = self._start(venv, generation, hash_seed) if room else None
            return self._templates[key]

    def _start(self, venv: VirtualEnvironment, generation: str, hash_seed: int) -> ImportingProcess:
        scratch = self._open.enter_context(self._workspace.scratch())
        environment = worker_environment(venv, scratch, scratch, Confinement({}, hash_seed=hash_seed))
        for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):  # it runs no environment's code, and compiles for all
            del environment[name]
        template = ImportingProcess(venv, scratch, environment, "template", generation)
        self._open.callback(template.base.end)
        return template


def _reason_against(package: Package, confinement: Confinement) -> str:
    """Why this environment must import verifiers by itself, whatever its wheel holds, or nothing."""
    if sys.platform != "linux":
        return "processes are forked on Linux only"
    if package.fresh_process:
        return "pyproject.toml asks for a fresh process"
    if confinement.allow_network or confinement.secrets:
        return "variables are declared, or the network is allowed, which imports may heed"
    return ""


def reason_in_wheel(venv: VirtualEnvironment, overlay: Path) -> str:
    """Why importing verifiers with this unpacked wheel on the path is something else than without it, or nothing."""
    for name in sorted(os.listdir(overlay)):  # noqa: PTH208
        if name in SITE_MODULES:
            return f"the wheel brings {name}, which Python imports first of all"
        if name.endswith(".dist-info") and (overlay / name / "entry_points.txt").is_file():
            return "the wheel has entry points, which imports may look for"
    hidden = modules_in(overlay) & (modules_in(venv.site_packages) | sys.stdlib_module_names)
    return f"the wheel hides the module {min(hidden)}" if hidden else ""


def modules_in(folder: Path) -> set[str]:
    """What can be imported from a folder, and a little more."""
    return {name.partition(".")[0] for name in os.listdir(folder)}  # noqa: PTH208


class EnvironmentProcesses:
    """The processes of one environment; use as a context manager. All of them end with the block.

    A job is a fork of the environment template. Where loading left something that no fork can carry, it is a fork of
    the base that loads by itself; where there is no base, it is a new process.
    """

    def __init__(
        self,
        venv: VirtualEnvironment,
        package: Package,
        overlay: Path,
        settings: Mapping[str, Any],
        confinement: Confinement,
        workspace: Workspace,
        stop: threading.Event,
        origin: Origin = Origin(),
    ) -> None:
        self._venv = venv
        self._package = package
        self._overlay = overlay
        self._settings = dict(settings)
        self._confinement = confinement
        self._workspace = workspace
        self._stop = stop
        self._origin = origin
        self._mark = uuid.uuid4().hex
        self._open = ExitStack()
        self._base: Base | None = None
        self._template: socket.socket | None = None
        self._is_forked = False
        self._reason = origin.reason
        self._memory = MemoryWatch(confinement.memory)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._scratch = stack.enter_context(self._workspace.scratch())
            variables = worker_environment(self._venv, self._overlay, self._scratch, self._confinement)
            self._variables = {**variables, MARK: self._mark}
            stack.callback(self._end_strays)
            self._base = self._new_base()
            if self._base is not None:
                stack.callback(self._base.end)
                self._memory = MemoryWatch(self._confinement.memory, self._base.process.pid)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def peak_memory(self) -> int:
        """Bytes that the processes held at most, as far as that was looked at."""
        return self._memory.peak

    @property
    def started(self) -> Started:
        """From what jobs are made, and why not from something that costs less."""
        origin: JobOrigin = "environment" if self._template else "lock" if self._base else "process"
        return Started("forked" if self._is_forked else "fresh", self._reason, origin)

    def load(self) -> Iterator[tuple[Stage, Iterator[tuple[str, Any]]]]:
        """Load the environment and read its tasks; what has done so becomes the template of all jobs.

        Yields each stage with what is sent in it. Raises `StageFailed` where that cannot be done.
        """
        control: socket.socket | None = None
        if self._base is None:
            job = self._open.enter_context(self.unloaded_job())
        else:
            control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._open.callback(control.close)
            with theirs:
                job = self._open.enter_context(self._forked(self._base.control, control=theirs.fileno()))
        yield "load", job.request("load", LOAD_SECONDS, settings=self._settings)
        yield "tasks", job.request("tasks", LOAD_SECONDS, keep=TASKS_SCORED)
        refusal = "" if control is None else str(dict(job.request("template", LOAD_SECONDS))["refusal"])
        if control is None or refusal:
            self._reason = f"it cannot be forked once it is loaded: {refusal}" if refusal else self._reason
            job.end()
        else:
            self._template = control

    @contextmanager
    def job(self) -> Iterator[Job]:
        """A job that has loaded the environment and done nothing else; it ends with the block.

        Raises `StageFailed` where the environment cannot be loaded once more, and `WorkerLost`.
        """
        if self._template is not None:
            with self._forked(self._template) as job:
                yield job
            return
        with self.unloaded_job() as job:
            for _ in job.request("load", LOAD_SECONDS, settings=self._settings):
                pass
            for _ in job.request("tasks", LOAD_SECONDS, keep=TASKS_SCORED, facts=False):
                pass
            yield job

    def unloaded_job(self) -> Job:
        """A job that has imported verifiers at most."""
        if self._base is not None:
            return self._forked(self._base.control)
        asked = (self._venv.python, self._scratch, self._variables, {"role": "worker"})
        return Job(connected(partial(new_process, *asked)), self._memory, self._stop)

    def _forked(self, template: socket.socket, **given: int) -> Job:
        """A job that a template forks. Raises `WorkerLost` where none comes: the template was ended."""
        try:
            connection = connected(lambda pipes: fork(template, {}, {**pipes, **given}))
        except NotForked as error:
            raise WorkerLost(Failure("crash", "WorkerDied", str(error))) from None
        return Job(connection, self._memory, self._stop)

    def _new_base(self) -> Base | None:
        """Forked from the lock template, or importing by itself; none where it may not be forked from."""
        if self._origin.template is not None:
            try:
                base = self._origin.template.fork_base(self._variables, self._scratch, self._overlay)
                self._is_forked = True
                return base
            except NotForked as error:
                self._reason = str(error)
        if sys.platform != "linux" or self._package.fresh_process:
            return None
        if reason := reason_in_wheel(self._venv, self._overlay):  # the import would run the environment's code
            self._reason = self._reason or reason
            return None
        generation, open_network = self._package.generation or "v1", self._confinement.allow_network
        importing = ImportingProcess(
            self._venv, self._scratch, self._variables, "base", generation, allow_network=open_network
        )
        base = importing.base
        try:
            refusal = importing.refusal(self._stop)
        except BaseException:
            base.end()
            raise
        if refusal:
            self._reason = refusal
            base.end()
            return None
        return base

    def _end_strays(self) -> None:
        """End what left its family, whose supervisor may have been killed."""
        import psutil

        for process in marked_processes(self._mark):
            with suppress(psutil.Error):
                process.kill()
