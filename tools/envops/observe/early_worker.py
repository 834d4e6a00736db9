"""A worker that imports verifiers while the wheel of its environment is still being built.

Its variables name the folder that the wheel will be unpacked into, so that it becomes what a process begun
afterwards would be. Where the wheel would have had a say in the import, such a one takes its place.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envops.declare.package import Package
from envops.observe.fork_server import SITE_MODULES, modules_in, reason_in_wheel
from envops.observe.process import Confinement, WorkerProcess
from envops.observe.venv import VirtualEnvironment
from envops.observe.wheel import overlay_of
from envops.observe.workspace import Workspace


@contextmanager
def early_worker(
    venv: VirtualEnvironment,
    package: Package,
    workspace: Workspace,
    confinement: Confinement,
    stop: threading.Event,
) -> Iterator[WorkerProcess]:
    """A worker on its way, which ends with the block; to be asked once the wheel is unpacked."""
    with (
        workspace.scratch() as scratch,
        WorkerProcess(
            venv, overlay_of(package, workspace), scratch, confinement, stop, ahead=package.generation or "v1"
        ) as worker,
    ):
        yield worker


def would_be_in_vain(package: Package) -> bool:
    """Whether it can be told already that the wheel will have a say in the import."""
    return any(part in SITE_MODULES for name in package.files for part in name.split("/"))


def heeded_by_imports(overlay: Path, venv: VirtualEnvironment) -> bool:
    """Whether an unpacked wheel changes what importing verifiers does, or could."""
    there = modules_in(venv.site_packages) | sys.stdlib_module_names
    return bool(reason_in_wheel(overlay) or there & modules_in(overlay))
