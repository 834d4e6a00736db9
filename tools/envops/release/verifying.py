"""Verifying a published version: its wheel has the tested bytes, installs by version, and loads."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envops.facts.limits import LOAD_SECONDS
from envops.facts.observed import NOT_PREPARED, Wheel
from envops.hub.access import HubAccess, Prime
from envops.hub.client import HubAnswer, HubCall, call_hub
from envops.release.plan import Desired
from envops.release.publishing import READS
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.system.retry_policy import HUB_PUSH, RetryPolicy
from envops.system.subprocesses import ProgramFailed, run_program
from envops.text.scrubbing import SECRET_NAME
from envops.validation.interpreter import interpreter_for
from envops.validation.job import StageFailed, WorkerLost
from envops.validation.observation_request import ObservationRequest
from envops.validation.requests import requests_for, require_prepared
from envops.validation.templates import environment_processes
from envops.validation.uv import uv_program
from envops.validation.venv import environment_venv

INSTALL_SECONDS = 300.0


@dataclass(frozen=True)
class Verified:
    """The result of verifying a published version."""

    sound: bool
    message: str
    sha256: str = ""
    installed: str = ""
    """The source of its installation: the Hub's index by version, or the downloaded wheel."""
    seen: bool = True
    """Whether it could be checked at all."""


@dataclass(frozen=True)
class Fetched:
    """The published wheel of a version."""

    wheel: Path
    sha256: str
    index: str = ""
    """The index that it installs from by version; empty if the index is not public."""


@dataclass(frozen=True)
class Verifier:
    """The settings that all versions share."""

    prime: Prime
    access: HubAccess
    workspace: Workspace
    stop: threading.Event
    retry: RetryPolicy = HUB_PUSH

    def fetch(self, desired: Desired, proven: Wheel, folder: Path) -> Fetched | Verified:
        """Fetch the published wheel and compare it with the tested one; the result if that fails.

        Raises `Interrupted` when `stop` is set.
        """
        said = self._asked(HubCall("details", f"/environmentshub/{desired.address}/@{desired.version}"))
        if said.outcome == "failed":
            return Verified(False, f"the published version could not be read: {said.message}", seen=False)
        details = _details(said)
        address = details.get("wheel_url")
        if not isinstance(address, str) or not address:
            hidden = desired.visibility == "PRIVATE" and bool(details)
            message = f"the Hub has no wheel of {desired.address}@{desired.version}"
            return Verified(hidden, f"{message}; its content hash is the validated one" if hidden else message)
        place = folder / desired.name
        place.mkdir()
        wheel = place / proven.filename
        answer = self._asked(HubCall("wheel", download=address, to=str(wheel)))
        if answer.outcome != "ok":
            seen = answer.outcome != "failed"
            return Verified(False, f"its wheel could not be downloaded: {answer.message}", seen=seen)
        sha256 = str(answer.data["sha256"])
        if sha256 != proven.sha256:
            return Verified(False, f"its wheel has the hash {sha256}, the tested one has {proven.sha256}", sha256)
        index = details.get("install_index_url") or details.get("simple_index_url")
        return Fetched(wheel, sha256, str(index or "") if desired.visibility == "PUBLIC" else "")

    def load(self, fetched: Fetched, desired: Desired, entry: EnvironmentEntry, package: Package) -> Verified:
        """Install the fetched wheel beside the environment's lock, and load it.

        This runs the environment's code: no process that holds a key in its variables may run
        beside it. Raises `Interrupted` when `stop` is set.
        """
        wanted, how = [str(fetched.wheel)], "its wheel"
        if fetched.index:
            how = f"{desired.name}=={desired.version}"
            wanted = [how, "--default-index", fetched.index]
        try:
            venv = environment_venv(package, self.workspace, self.stop)
        except ProgramFailed as error:  # a problem of this machine, not of the version
            said = self.access.scrubber.text(error.failure.message).strip()[-300:]
            return Verified(False, f"its lock could not be installed here: {said}", fetched.sha256, seen=False)
        try:
            with self.workspace.scratch() as scratch:
                overlay = scratch / "site"
                self._install(wanted, overlay, interpreter_for(package.requires_python).minor)
                requests = requests_for(replace(entry, secrets=()), ObservationRequest(), package)
                require_prepared(entry.name, requests)
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
            said = self.access.scrubber.text(error.failure.message).strip()[-300:]
            return Verified(False, f"installed from {how}, it does not load: {said}", fetched.sha256, how)
        return Verified(True, f"installed from {how} and loaded", fetched.sha256, how)

    def _asked(self, call: HubCall) -> HubAnswer:
        """The answer of the Hub, read again while that fails: no later release verifies this version."""
        for turn in range(READS - 1):
            answer = call_hub(self.prime, self.access, [call], self.stop)[call.id]
            if answer.outcome != "failed":
                return answer
            self.retry.wait(turn, self.stop)
        return call_hub(self.prime, self.access, [call], self.stop)[call.id]

    def _install(self, wanted: list[str], overlay: Path, python: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not SECRET_NAME.search(name)}
        for name in ("UV_OFFLINE", "UV_NO_INDEX", "UV_FIND_LINKS", "VIRTUAL_ENV", "PYTHONPATH"):
            kept.pop(name, None)
        command: list[str | Path] = [
            uv_program(),
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-cache",
            "--no-config",
        ]
        command += ["--only-binary", ":all:", "--compile-bytecode", "--python-version", python, "--target", overlay]
        environment = {"NO_PROXY": "127.0.0.1,localhost", "UV_PYTHON_DOWNLOADS": "never", **kept}
        folder = overlay.parent
        run_program(
            [*command, *wanted], environment=environment, folder=folder, seconds=INSTALL_SECONDS, stop=self.stop
        )


def _details(answer: HubAnswer) -> dict[str, Any]:
    data = answer.data.get("data", answer.data) if isinstance(answer.data, dict) else None
    return data if isinstance(data, dict) else {}
