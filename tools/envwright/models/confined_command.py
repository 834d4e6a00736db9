"""Commands of verifiers in the environment's virtual environment, beside its package, without a key."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright_worker.sandbox import Sandbox

from envwright.builds.starting import IMPORT_WORKER, WORKER_FOLDER
from envwright.builds.venv import VirtualEnvironment, environment_venv
from envwright.builds.wheel import built_wheel
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.models.model_evaluation import sampling_of
from envwright.models.relay import Relay
from envwright.observing.job import worker_environment
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.requests import requests_for
from envwright.observing.templates import environment_sandbox
from envwright.system.workspace import Workspace

HARNESS = "envwright_chat"
GUARD = """
from envwright_worker.confinement import NetworkGuard
from envwright_worker.failures import Sources
NetworkGuard(Sources(), allowed=False).watch()
"""
"""`sitecustomize` of the command and of every server that it starts."""
RELAY_JUDGES = """
from envwright_worker.endpoint.judge_requests import JudgeRequests
JudgeRequests({place!r}).install()
"""
"""The rest of it: requests to a judge go to the relay at `place`, or are refused where it is `None`."""


@dataclass(frozen=True)
class ConfinedCommand:
    """The variables and the folder of a command."""

    venv: VirtualEnvironment
    scratch: Path
    """Its working folder, which is removed afterwards."""
    modules: Path
    """The first folder of its import path."""
    variables: dict[str, str]
    sandbox: Sandbox | None


@contextmanager
def confined_command(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    stop: threading.Event,
    *,
    judge: str | None,
    allow_network: bool,
) -> Iterator[ConfinedCommand]:
    """The variables and the folder of a command of verifiers, with the chat harness of the workers and the declared
    secrets.

    Python's connections beyond this machine are refused as in a worker, unless the network is allowed. Requests to a
    judge go to the address `judge`, and are refused without one.
    Raises `ProgramFailed` if the virtual environment or the wheel cannot be made, and `Interrupted`.
    """
    venv = environment_venv(package, workspace, stop)
    overlay = built_wheel(package, workspace, stop).overlay
    confinement = requests_for(entry, ObservationRequest(allow_network=allow_network), package).confinement
    with workspace.scratch() as scratch:
        variables = worker_environment(venv, overlay, scratch, confinement)
        modules = scratch / "modules"
        modules.mkdir()
        shutil.copy(WORKER_FOLDER / "adapters" / "chat_harness.py", modules / f"{HARNESS}.py")
        guard(modules, judge, refuses=not allow_network)
        variables["PYTHONPATH"] = f"{modules}:{variables['PYTHONPATH']}"
        sandbox = environment_sandbox(venv, package, overlay, scratch, confinement, workspace)
        yield ConfinedCommand(venv, scratch, modules, variables, sandbox)


def guard(modules: Path, judge: str | None = None, *, refuses: bool = True) -> None:
    """Let every Python with this folder on its path import the worker, relay requests to a judge to the address
    `judge`, and refuse connections beyond this machine.
    """
    begins = IMPORT_WORKER + (GUARD if refuses else "")
    (modules / "sitecustomize.py").write_text(begins + RELAY_JUDGES.format(place=judge))


def settings_of_v1(entry: EnvironmentEntry, relay: Relay) -> dict[str, Any]:
    """The settings of every command of v1: the environment's arguments, the worker's harness, and the relay."""
    nested = {"sampling": sampling_of(relay.endpoint), "env.taskset": entry.args}
    return {
        "client.base-url": relay.base_url,
        "client.api-key-var": "ENVWRIGHT_ENDPOINT_KEY",
        "env.agent.harness.id": HARNESS.replace("_", "-"),
        "env.agent.runtime.type": "subprocess",
        **{f"{place}.{key.replace('_', '-')}": value for place, of in nested.items() for key, value in of.items()},
    }


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as arguments of verifiers' command line."""
    return [text for key, value in settings.items() for text in (f"--{key}", str(value))]
