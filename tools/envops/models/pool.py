"""A large evaluation by verifiers' own command, on its own pool of environment servers.

Our worker plays all rollouts in one process. Where that is the bottleneck, verifiers' command starts
as many servers of the environment as it is configured to (v0), or an interception server for every 32
rollouts (v1). The model is reached through the host's relay: the key stays with the host.
"""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

from envops.models.confined_command import confined_command, flags, settings_of_v1
from envops.models.import_results import FILES
from envops.models.model_evaluation import EvaluationSize, sampling_of
from envops.models.relay import Relay
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.system.subprocesses import run_program


def evaluate_in_pool(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    relay: Relay,
    asked: EvaluationSize,
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
    with confined_command(entry, package, workspace, stop, allow_network=allow_network) as confined:
        out = confined.scratch / "out"
        options = _options_v0(entry, relay, servers) if package.generation == "v0" else _options_v1(entry, relay)
        common = ["-m", relay.endpoint.model, "-n", str(asked.tasks), "-r", str(asked.rollouts)]
        common += ["-c", str(asked.max_concurrent), "-o", str(out)]
        command: list[str | Path] = [
            confined.venv.folder / "bin/vf-eval",
            package.module,
            *common,
        ]
        run_program(
            [*command, *options],
            environment=confined.variables,
            folder=confined.scratch,
            seconds=asked.seconds,
            stop=stop,
        )
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        found = [path for name in FILES for path in out.rglob(name)]
        for path in found[:1]:
            for beside in path.parent.glob("*.json*"):
                shutil.copy(beside, folder)
    return folder


def _options_v0(entry: EnvironmentEntry, relay: Relay, servers: int) -> list[str]:
    sampling = ["-S", json.dumps(sampling_of(relay.endpoint))]
    where = ["-b", relay.base_url, "-k", "ENVOPS_ENDPOINT_KEY", "-a", json.dumps(dict(entry.args))]
    return [*where, *sampling, "-s", "-d", "--num-workers", str(servers)]


def _options_v1(entry: EnvironmentEntry, relay: Relay) -> list[str]:
    pool = {"env.interception.type": "elastic", "run.name": "pool"}
    return [*flags(settings_of_v1(entry, relay) | pool), "--no-push", "--no-rich"]
