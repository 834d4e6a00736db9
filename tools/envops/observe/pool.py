"""A large evaluation by verifiers' own command, on its own pool of environment servers.

Our worker plays all rollouts in one process. Where that is the bottleneck, verifiers' command starts
as many servers of the environment as it is told (v0), or an interception server for every 32
rollouts (v1). The model is reached through the host's relay: the key stays with the host.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envops.declare.package import Package
from envops.declare.registry import EnvironmentEntry
from envops.observe.importing import FILES
from envops.observe.model_evaluation import Asked, sampling_of
from envops.observe.process import Confinement, worker_environment
from envops.observe.relay import Relay
from envops.observe.starting import WORKER_FOLDER
from envops.observe.subprocesses import run_program
from envops.observe.venv import venv_for
from envops.observe.wheel import built_wheel
from envops.observe.workspace import Workspace

HARNESS = "envops_chat"
GUARD = """
import importlib.util, sys
folder = {folder!r}
path = folder + "/__init__.py"
spec = importlib.util.spec_from_file_location("envops_worker", path, submodule_search_locations=[folder])
sys.modules["envops_worker"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from envops_worker.confinement import NetworkGuard
from envops_worker.failures import Sources
NetworkGuard(Sources(), allowed=False).watch()
"""
"""What Python runs first in the command and in every server that it starts, as `sitecustomize`."""


def evaluate_in_pool(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    relay: Relay,
    asked: Asked,
    servers: int,
    folder: Path,
    stop: threading.Event,
    *,
    allow_network: bool = False,
) -> Path:
    """Evaluate, and leave verifiers' files of results and metadata in a folder, which is given back.

    Python's connections beyond this machine are refused as in a worker, unless the network is allowed.
    Raises `ProgramFailed` when the command fails or leaves no results, and `Interrupted` when `stop` is set.
    """
    venv = venv_for(package.folder / "requirements.lock", workspace, stop)
    overlay = built_wheel(package, workspace, stop).overlay
    with workspace.scratch() as scratch:
        secrets = {name: os.environ[name] for name in entry.secrets if name in os.environ}
        environment = worker_environment(venv, overlay, scratch, Confinement(secrets, allow_network))
        modules, out = scratch / "modules", scratch / "out"
        modules.mkdir()
        shutil.copy(WORKER_FOLDER / "chat_harness.py", modules / f"{HARNESS}.py")
        if not allow_network:
            guard(modules)
        environment["PYTHONPATH"] = f"{modules}:{environment['PYTHONPATH']}"
        options = _options_v0(entry, relay, servers) if package.generation == "v0" else _options_v1(entry, relay)
        common = ["-m", relay.endpoint.model, "-n", str(asked.tasks), "-r", str(asked.rollouts)]
        common += ["-c", str(asked.max_concurrent), "-o", str(out)]
        command: list[str | Path] = [
            venv.folder / "bin/vf-eval",
            package.module,
            *common,
        ]
        run_program([*command, *options], environment=environment, folder=scratch, seconds=asked.seconds, stop=stop)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        found = [path for name in FILES for path in out.rglob(name)]
        for path in found[:1]:
            for beside in path.parent.glob("*.json*"):
                shutil.copy(beside, folder)
    return folder


def guard(modules: Path) -> None:
    """Let every Python that has this folder first on its path refuse connections beyond this machine."""
    (modules / "sitecustomize.py").write_text(GUARD.format(folder=str(WORKER_FOLDER)))


def _options_v0(entry: EnvironmentEntry, relay: Relay, servers: int) -> list[str]:
    sampling = ["-S", json.dumps(sampling_of(relay.endpoint))]
    where = ["-b", relay.base_url, "-k", "ENVOPS_ENDPOINT_KEY", "-a", json.dumps(dict(entry.args))]
    return [*where, *sampling, "-s", "-d", "--num-workers", str(servers)]


def _options_v1(entry: EnvironmentEntry, relay: Relay) -> list[str]:
    where = ["--client.base-url", relay.base_url, "--client.api-key-var", "ENVOPS_ENDPOINT_KEY"]
    harness = ["--env.agent.harness.id", HARNESS.replace("_", "-"), "--env.agent.runtime.type", "subprocess"]
    pool = ["--env.interception.type", "elastic", "--no-push", "--no-rich", "--run.name", "pool"]
    sampling = _flags("--sampling", sampling_of(relay.endpoint))
    args = _flags("--env.taskset", entry.args)
    return [*where, *harness, *pool, *sampling, *args]


def _flags(before: str, values: Mapping[str, Any]) -> list[str]:
    return [text for key, value in values.items() for text in (f"{before}.{key.replace('_', '-')}", str(value))]
