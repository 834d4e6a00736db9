"""Commands of verifiers in the environment's virtual environment, beside its package, without a key."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envops.models.model_evaluation import sampling_of
from envops.models.relay import Relay
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.validation.job import Confinement, worker_environment
from envops.validation.prepared_home import prepared_home
from envops.validation.starting import IMPORT_WORKER, WORKER_FOLDER
from envops.validation.venv import VirtualEnvironment, environment_venv
from envops.validation.wheel import built_wheel

HARNESS = "envops_chat"
GUARD = f"""{IMPORT_WORKER}
from envops_worker.confinement import NetworkGuard
from envops_worker.failures import Sources
NetworkGuard(Sources(), allowed=False).watch()
"""
"""`sitecustomize` of the command and of every server that it starts."""
RELAY_JUDGES = """
from envops_worker.endpoint.judge_requests import JudgeRequests
JudgeRequests({place!r}).install()
"""
"""The rest of it: requests to a judge go to the relay at `place`, or are refused where it is `None`."""


@dataclass(frozen=True)
class ConfinedCommand:
    """The circumstances of a command."""

    venv: VirtualEnvironment
    scratch: Path
    """Its working folder, which is removed afterwards."""
    modules: Path
    """The first folder of its import path."""
    variables: dict[str, str]


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
    """The circumstances of a command of verifiers, with the chat harness of our workers and the declared secrets.

    Python's connections beyond this machine are refused as in a worker, unless the network is allowed. Requests to a
    judge go to the address `judge`, and are refused without one.
    Raises `ProgramFailed` where the virtual environment or the wheel cannot be made, and `Interrupted`.
    """
    venv = environment_venv(package, workspace, stop)
    overlay = built_wheel(package, workspace, stop).overlay
    secrets = {name: os.environ[name] for name in entry.secrets if name in os.environ}
    prepared = prepared_home(entry, package)
    confinement = Confinement(secrets, allow_network, home=prepared.home if prepared else None)
    with workspace.scratch() as scratch:
        variables = worker_environment(venv, overlay, scratch, confinement)
        modules = scratch / "modules"
        modules.mkdir()
        shutil.copy(WORKER_FOLDER / "adapters" / "chat_harness.py", modules / f"{HARNESS}.py")
        guard(modules, judge, allow_network=allow_network)
        variables["PYTHONPATH"] = f"{modules}:{variables['PYTHONPATH']}"
        yield ConfinedCommand(venv, scratch, modules, variables)


def guard(modules: Path, judge: str | None = None, *, allow_network: bool = False) -> None:
    """Make every Python with this folder on its path refuse connections beyond this machine, and relay its judges."""
    begins = IMPORT_WORKER if allow_network else GUARD
    (modules / "sitecustomize.py").write_text(begins + RELAY_JUDGES.format(place=judge))


def settings_of_v1(entry: EnvironmentEntry, relay: Relay) -> dict[str, Any]:
    """The settings of every command of v1: the environment's arguments, our harness, and the relay."""
    nested = {"sampling": sampling_of(relay.endpoint), "env.taskset": entry.args}
    return {
        "client.base-url": relay.base_url,
        "client.api-key-var": "ENVOPS_ENDPOINT_KEY",
        "env.agent.harness.id": HARNESS.replace("_", "-"),
        "env.agent.runtime.type": "subprocess",
        **{f"{place}.{key.replace('_', '-')}": value for place, of in nested.items() for key, value in of.items()},
    }


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as verifiers' command line takes them."""
    return [text for key, value in settings.items() for text in (f"--{key}", str(value))]
