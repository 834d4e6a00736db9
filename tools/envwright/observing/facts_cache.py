"""The cache of facts: its keys, and how facts are written and read."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from envwright.builds.sandbox import reason_against_sandbox
from envwright.builds.uv import interpreter_if_any
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Facts, adapter, as_json
from envwright.files.atomic_write import write_whole
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.stage import requests_for
from envwright.system.signature import signed, verified
from envwright.system.workspace import OBSERVING, TOOLS, Workspace, code_digest, mark_used

FACTS_KEPT = 5
SIGNED_AS = "facts"
VERDICT = ".verdict"
INPUTS = ".inputs"
"""The suffixes of files with verdicts on facts, and with the inputs of facts; their names begin with the facts' key."""
ROOM_BYTES = 64 * 2**20
"""The bytes of free disk space below which a failure may be due to a full disk."""


def facts_key(entry: EnvironmentEntry, package: Package, request: ObservationRequest) -> str:
    """Digest of everything that can change an observation."""
    return hashlib.sha256(json.dumps(key_parts(entry, package, request), sort_keys=True).encode()).hexdigest()


def key_parts(entry: EnvironmentEntry, package: Package, request: ObservationRequest) -> dict[str, Any]:
    """Everything that can change an observation: the requests, the package, the lock, the tool, the machine."""
    interpreter = interpreter_if_any(package.requires_python)
    return {
        "requests": requests_for(entry, request.of_package(package), package).digest(),
        "package": package.digest,
        "lock": package.lock.digest if package.lock else "",
        "tool": code_digest(*(TOOLS / folder for folder in OBSERVING)),
        "sandbox": reason_against_sandbox(),
        "python": [interpreter.build if interpreter else "", sys.platform, platform.machine()],
    }


def remembered(
    entry: EnvironmentEntry, package: Package, workspace: Workspace, request: ObservationRequest
) -> Facts | None:
    """Facts of an earlier observation that are still valid, perhaps of one with more stages.

    A damaged file counts as missing, and so does one that this user did not sign.
    """
    for path in facts_files(entry, package, workspace, request):
        try:
            facts = read_facts(path)
        except (OSError, ValueError):
            continue
        if facts.key == path.stem and facts.environment == entry.name:
            mark_used(path)
            return facts
    return None


def facts_files(
    entry: EnvironmentEntry, package: Package, workspace: Workspace, request: ObservationRequest
) -> Iterator[Path]:
    """The possible files of facts for a request, the widest observation first; none without the cache."""
    if not request.use_cache:
        return
    widest = replace(request, evaluate=True, score=True, only_replies=False, stages=None)
    for wider in dict.fromkeys((widest, replace(request, only_replies=False), request)):
        yield facts_file(workspace, entry.name, facts_key(entry, package, wider))


def facts_file(workspace: Workspace, environment: str, key: str) -> Path:
    return workspace.facts / environment / f"{key}.json"


def replace_facts(facts: Facts, workspace: Workspace) -> None:
    """Write facts, and remove verdicts on earlier facts with the same key. Raises `OSError`."""
    path = facts_file(workspace, facts.environment, facts.key)
    forget_verdicts(path)
    write_facts(facts, path)


def forget_verdicts(facts: Path) -> None:
    for path in facts.parent.glob(f"{facts.stem}.*{VERDICT}"):
        path.unlink(missing_ok=True)


def remember(facts: Facts, workspace: Workspace) -> str:
    """Keep facts for the next run, and only a few of each environment. Returns why that failed, or nothing."""
    folder = workspace.facts / facts.environment
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < ROOM_BYTES:  # it may have caused the failure
            raise OSError("the disk is full")
        replace_facts(facts, workspace)
        old = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[FACTS_KEPT:]:
            path.unlink(missing_ok=True)
            path.with_suffix(INPUTS).unlink(missing_ok=True)
            forget_verdicts(path)
    except OSError as error:  # a full disk or a read-only cache only costs time
        return f"{facts.environment}: its facts could not be cached, so the next run observes again ({error})"
    return ""


def write_facts(facts: Facts, path: Path) -> None:
    """Write facts atomically, so that a reader gets all of them or none. Raises `OSError`."""
    write_whole(path, signed(as_json(facts), SIGNED_AS))


def read_facts(path: Path) -> Facts:
    """Facts as written by `write_facts`.

    Raises `ValueError` when the file is damaged, of another shape or not signed by this user,
    `OSError` when it cannot be read.
    """
    text = verified(path.read_bytes(), SIGNED_AS)  # first: without a file, no checker is needed
    facts: Facts = adapter(Facts).validate_json(text, strict=False)
    return facts
