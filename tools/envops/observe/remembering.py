"""Facts that are kept from one run to the next, under a key of everything that can change them."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from envops.declare.package import Package
from envops.declare.registry import EnvironmentEntry
from envops.observe.facts import Facts
from envops.observe.facts_on_disk import read_facts, write_facts
from envops.observe.journal import Journal
from envops.observe.requests import Wish, requests_for
from envops.observe.workspace import Workspace, mark_used, tool_digest

FACTS_KEPT = 5
ROOM_BYTES = 64 * 2**20
"""With less than this on the disk, what was seen may have been seen because of that."""


def facts_key(entry: EnvironmentEntry, package: Package, wish: Wish) -> str:
    """Digest of everything that can change what an observation sees: the requests, the package, the lock, the tool."""
    seen = {
        "requests": requests_for(entry, wish).digest(),
        "package": package.digest,
        "lock": package.lock.digest if package.lock else "",
        "tool": tool_digest(),
        "python": [sys.version, sys.platform, platform.machine()],
    }
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def remembered(entry: EnvironmentEntry, package: Package, workspace: Workspace, wish: Wish) -> Facts | None:
    """Facts of an earlier observation that still hold, perhaps of one that saw more than is wished.

    A damaged file is as good as none.
    """
    for key, path in _candidates(entry, package, workspace, wish):
        try:
            facts = read_facts(path)
        except (OSError, ValueError):
            continue
        if facts.key == key and facts.environment == entry.name:
            mark_used(path)
            return facts
    return None


def seems_remembered(entry: EnvironmentEntry, package: Package, workspace: Workspace, wish: Wish) -> bool:
    """Whether there is a file of facts that would hold, sound or not."""
    return any(path.is_file() for _, path in _candidates(entry, package, workspace, wish))


def _candidates(
    entry: EnvironmentEntry, package: Package, workspace: Workspace, wish: Wish
) -> Iterator[tuple[str, Path]]:
    if not wish.use_cache:
        return
    widest = replace(wish, evaluate=True, score=True, only_replies=False)
    for wider in dict.fromkeys((widest, replace(wish, only_replies=False), wish)):
        key = facts_key(entry, package, wider)
        yield key, workspace.facts / entry.name / f"{key}.json"


def remember(facts: Facts, workspace: Workspace) -> str:
    """Keep facts for the next run, and no more than a few of each environment; why that failed, or nothing."""
    folder = workspace.facts / facts.environment
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < ROOM_BYTES:  # it may be what broke the environment
            raise OSError("the disk is full")
        write_facts(facts, folder / f"{facts.key}.json")
        Journal.of(workspace, facts.environment, facts.key).forget()
        old = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[FACTS_KEPT:]:
            path.unlink(missing_ok=True)
    except OSError as error:  # a full disk or a read-only cache costs time, not truth
        return f"{facts.environment}: its facts could not be kept, the next run observes again ({error})"
    return ""
