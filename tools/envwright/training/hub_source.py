"""What an environment of the Hub takes, read from its wheel before a run on it is paid.

Its code is not here, so that rules list its agents and settings as not checked. Nothing of the wheel is imported.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from envwright.builds.wheel import DAMAGED_ARCHIVE
from envwright.hub.access import HubAccess, HubUnavailable, Prime
from envwright.hub.client import HubCall, call_hub
from envwright.packages.source import read_source
from envwright.system.workspace import temporary_scratch

if TYPE_CHECKING:
    from envwright.training.trainers.trainer import Environment

MOST_FILES, MOST_BYTES = 500, 4_000_000
"""Python files of a wheel that are read, and their bytes together."""


def shown_by_wheels(
    environments: Iterable[Environment], prime: Prime, access: HubAccess, stop: threading.Event
) -> Mapping[str, Environment]:
    """The environments of the Hub with the agents and settings that their source shows, by name.

    One whose wheel cannot be read is left out. Raises `Interrupted`.
    """
    wanted = {
        environment.name: environment for environment in environments if environment.external and environment.version
    }
    found: dict[str, Environment] = {}
    if not wanted:
        return found
    with temporary_scratch("wheels") as scratch:
        versions = [HubCall(name, f"/environmentshub/{each.hub}/@{each.version}") for name, each in wanted.items()]
        try:
            details = call_hub(prime, access, versions, stop)
            named = {name: details[name].inner.get("wheel_url") for name in wanted}
            addresses = {name: url for name, url in named.items() if isinstance(url, str) and url}
            wheels = [HubCall(name, download=url, to=str(scratch / f"{name}.whl")) for name, url in addresses.items()]
            if not wheels:
                return found
            answers = call_hub(prime, access, wheels, stop)
        except HubUnavailable:
            return found
        for name in addresses:
            is_there = answers[name].outcome == "ok"
            shown = _shown(wanted[name], scratch / f"{name}.whl", scratch / name) if is_there else None
            if shown is not None:
                found[name] = shown
    return found


def _shown(environment: Environment, wheel: Path, folder: Path) -> Environment | None:
    """The environment with what its module shows; `None` if the wheel has no such module that can be read."""
    try:
        files = _unpacked(wheel, folder)
    except (OSError, ValueError, zipfile.BadZipFile, *DAMAGED_ARCHIVE):
        return None
    module = environment.module
    if not {f"{module}.py", f"{module}/__init__.py"} & set(files):
        return None
    source, _problems = read_source(folder, folder, module, files)
    if not (source.exports_taskset or source.defines_load_environment):
        return None
    return replace(environment, agents=source.agents, settings=source.settings)


def _unpacked(wheel: Path, folder: Path) -> list[str]:
    """The Python files of a wheel, written below a folder.

    Raises `ValueError` if they are too many or lead out of it.
    """
    with zipfile.ZipFile(wheel) as archive:
        members = [each for each in archive.infolist() if each.filename.endswith(".py")]
        if len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
            raise ValueError("too many files")
        for member in members:
            parts = PurePosixPath(member.filename).parts
            if ".." in parts or PurePosixPath(member.filename).is_absolute() or "\\" in member.filename:
                raise ValueError("leads out of its folder")
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as stream:
                path.write_bytes(stream.read(MOST_BYTES))
    return [str(PurePosixPath(each.filename)) for each in members]
