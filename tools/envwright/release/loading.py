"""Installing and loading what was published. This runs code of environments, so no process here may have a key."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from envwright.builds.interpreter import interpreter_for
from envwright.builds.uv import uv_program
from envwright.builds.venv import environment_venv
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.limits import LOAD_SECONDS
from envwright.facts.observed import NOT_PREPARED
from envwright.observing.job import StageFailed, WorkerLost
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.requests import requests_for, require_prepared
from envwright.observing.templates import environment_processes
from envwright.release.evidence import sha256_of
from envwright.release.ledger import LedgerEntry
from envwright.release.verifying import Fetched, Verified
from envwright.system.subprocesses import ProgramFailed, run_program
from envwright.system.workspace import Workspace
from envwright.text.scrubbing import Scrubber, without_secrets

INSTALL_SECONDS = 300.0


@dataclass(frozen=True)
class Loader:
    """Installs fetched wheels beside the locks of their environments, and loads them."""

    workspace: Workspace
    folder: Path
    """Where the fetched wheels are, each in a folder with the name of its environment."""
    stop: threading.Event

    def load(self, entry: LedgerEntry, declared: EnvironmentEntry, package: Package) -> Verified:
        """Install and load one published wheel. Raises `Interrupted` when `stop` is set."""
        fetched, desired = entry.fetched, entry.step.desired
        if fetched is None:
            return Verified(False, "its wheel was not fetched", seen=False)
        wheel = self.folder / desired.name / fetched.filename
        if not wheel.is_file() or sha256_of(wheel) != fetched.sha256:
            message = f"the wheel that was fetched ({fetched.sha256[:12]}…) was not handed over"
            return Verified(False, message, fetched.sha256, seen=False)
        how = f"{desired.name}=={desired.version}" if fetched.index else "its wheel"
        try:
            venv = environment_venv(package, self.workspace, self.stop)
        except ProgramFailed as error:  # a problem of this machine, not of the version
            said = f"its lock could not be installed here: {_end_of(error.failure.message)}"
            return Verified(False, said, fetched.sha256, seen=False)
        try:
            with self.workspace.scratch() as scratch:
                overlay = scratch / "site"
                wanted = scratch / "published.txt"
                wanted.write_text(_requirement(wheel, how, fetched))
                self._install(wanted, fetched.index, overlay, interpreter_for(package.requires_python).minor)
                requests = requests_for(replace(declared, secrets=()), ObservationRequest(), package)
                require_prepared(declared.name, requests)
                settings = requests.settings(package, overlay)
                with (
                    environment_processes(
                        venv, package, overlay, settings, requests.confinement, self.workspace, self.stop
                    ) as processes,
                    processes.unloaded_job() as worker,
                ):
                    for _ in worker.request("load", LOAD_SECONDS, settings=settings):
                        pass
        except (ProgramFailed, StageFailed, WorkerLost) as error:
            if error.failure.type == NOT_PREPARED:
                return Verified(False, error.failure.message, fetched.sha256, seen=False)
            said = f"installed from {how}, it does not load: {_end_of(error.failure.message)}"
            return Verified(False, said, fetched.sha256, how)
        return Verified(True, f"installed from {how} and loaded", fetched.sha256, how)

    def _install(self, wanted: Path, index: str, overlay: Path, python: str) -> None:
        kept = without_secrets(os.environ)
        for name in ("UV_OFFLINE", "UV_NO_INDEX", "UV_FIND_LINKS", "VIRTUAL_ENV", "PYTHONPATH"):
            kept.pop(name, None)
        command: list[str | Path] = [uv_program(), "pip", "install", "--quiet", "--no-deps", "--no-cache"]
        command += ["--no-config", "--require-hashes", "--only-binary", ":all:", "--compile-bytecode"]
        command += ["--python-version", python, "--target", overlay, "--requirements", wanted]
        command += ["--default-index", index] if index else []
        run_program(
            command,
            environment={"NO_PROXY": "127.0.0.1,localhost", "UV_PYTHON_DOWNLOADS": "never", **kept},
            folder=overlay.parent,
            seconds=INSTALL_SECONDS,
            stop=self.stop,
        )


def _requirement(wheel: Path, how: str, fetched: Fetched) -> str:
    """The wheel, by version or by file, with the hash that it must have."""
    wanted = how if fetched.index else wheel.resolve().as_uri()
    return f"{wanted} --hash=sha256:{fetched.sha256}\n"


def _end_of(message: str) -> str:
    return Scrubber.of_environment().text(message).strip()[-300:]
