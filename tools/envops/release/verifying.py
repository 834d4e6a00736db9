"""Whether what the Hub hands out is what was proven: its bytes, and that it installs by version and loads."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envops.facts.limits import LOAD_SECONDS
from envops.facts.observed import Wheel
from envops.hub.access import HubAccess
from envops.hub.client import Answer, Call, ask_hub
from envops.hub.prime import Prime
from envops.hub.retry_policy import USUAL_PATIENCE, Patience
from envops.release.steps import Desired
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.system.subprocesses import ProgramFailed, run_program
from envops.text.scrubbing import SECRET_NAME
from envops.validation.job import StageFailed, WorkerLost
from envops.validation.requests import Wish, requests_for
from envops.validation.templates import environment_processes
from envops.validation.venv import PYTHON, uv_program, venv_for

INSTALL_SECONDS = 300.0


@dataclass(frozen=True)
class Verified:
    """What was found about a published version."""

    sound: bool
    message: str
    sha256: str = ""
    installed: str = ""
    """How it was installed: by version from the Hub's index, or from the wheel that the Hub handed out."""
    seen: bool = True
    """Whether the Hub let it be looked at."""


@dataclass(frozen=True)
class Fetched:
    """What the Hub hands out of a version."""

    wheel: Path
    sha256: str
    index: str = ""
    """The index that it installs from by version; empty where none takes everybody."""


@dataclass(frozen=True)
class Verifier:
    """Everything that is the same for all versions."""

    prime: Prime
    access: HubAccess
    workspace: Workspace
    stop: threading.Event
    patience: Patience = USUAL_PATIENCE

    def fetch(self, desired: Desired, proven: Wheel, folder: Path) -> Fetched | Verified:
        """Fetch the published wheel and compare it with the proven one; the verdict where it ends here.

        Raises `Interrupted` when asked to stop.
        """
        said = self._asked(Call("details", f"/environmentshub/{desired.address}/@{desired.version}"))
        if said.outcome == "failed":
            return Verified(False, f"what is there cannot be read: {said.message}", seen=False)
        details = _details(said)
        address = details.get("wheel_url")
        if not isinstance(address, str) or not address:
            hidden = desired.visibility == "PRIVATE" and bool(details)
            message = f"the Hub offers no wheel of {desired.address}@{desired.version}"
            return Verified(hidden, f"{message}; its content hash is the proven one" if hidden else message)
        place = folder / desired.name
        place.mkdir()
        wheel = place / proven.filename
        answer = self._asked(Call("wheel", download=address, to=str(wheel)))
        if answer.outcome != "ok":
            seen = answer.outcome != "failed"
            return Verified(False, f"its wheel cannot be fetched: {answer.message}", seen=seen)
        sha256 = str(answer.data["sha256"])
        if sha256 != proven.sha256:
            return Verified(False, f"its wheel is {sha256}, and proven was {proven.sha256}", sha256)
        index = details.get("install_index_url") or details.get("simple_index_url")
        return Fetched(wheel, sha256, str(index or "") if desired.visibility == "PUBLIC" else "")

    def load(self, fetched: Fetched, desired: Desired, entry: EnvironmentEntry, package: Package) -> Verified:
        """Install what was fetched beside the environment's lock, and load it.

        This runs the environment's code: no process that holds a key in its variables may run
        beside it. Raises `Interrupted` when asked to stop.
        """
        wanted, how = [str(fetched.wheel)], "its wheel"
        if fetched.index:
            how = f"{desired.name}=={desired.version}"
            wanted = [how, "--default-index", fetched.index]
        try:
            venv = venv_for(package.folder / "requirements.lock", self.workspace, self.stop)
        except ProgramFailed as error:  # says something of this machine, nothing of the version
            said = self.access.scrubber.text(error.failure.message).strip()[-300:]
            return Verified(False, f"its lock cannot be installed here: {said}", fetched.sha256, seen=False)
        try:
            with self.workspace.scratch() as scratch:
                overlay = scratch / "site"
                self._install(wanted, overlay)
                requests = requests_for(replace(entry, secrets=()), Wish())
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
            said = self.access.scrubber.text(error.failure.message).strip()[-300:]
            return Verified(False, f"installed as {how} it does not load: {said}", fetched.sha256, how)
        return Verified(True, f"installed as {how} and loaded", fetched.sha256, how)

    def _asked(self, call: Call) -> Answer:
        """What the Hub says, asked again with pauses while that fails: no later release looks at this version."""
        for turn in range(self.patience.reads - 1):
            answer = ask_hub(self.prime, self.access, [call], self.stop)[call.id]
            if answer.outcome != "failed":
                return answer
            self.patience.wait(turn, self.stop)
        return ask_hub(self.prime, self.access, [call], self.stop)[call.id]

    def _install(self, wanted: list[str], overlay: Path) -> None:
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
        command += ["--only-binary", ":all:", "--compile-bytecode", "--python-version", PYTHON, "--target", overlay]
        environment = {"NO_PROXY": "127.0.0.1,localhost", "UV_PYTHON_DOWNLOADS": "never", **kept}
        folder = overlay.parent
        run_program(
            [*command, *wanted], environment=environment, folder=folder, seconds=INSTALL_SECONDS, stop=self.stop
        )


def _details(answer: Answer) -> dict[str, Any]:
    data = answer.data.get("data", answer.data) if isinstance(answer.data, dict) else None
    return data if isinstance(data, dict) else {}
