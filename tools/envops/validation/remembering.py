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

from envops.facts.observed import Facts
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace, mark_used, tool_digest
from envops.validation.facts_on_disk import read_facts, write_facts
from envops.validation.journal import Journal
from envops.validation.requests import Wish, requests_for

FACTS_KEPT = 5
VERDICT = ".verdict"
"""How the names of files end that hold what was judged from facts; they begin with the facts' key."""
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
    for path in facts_files(entry, package, workspace, wish):
        try:
            facts = read_facts(path)
        except (OSError, ValueError):
            continue
        if facts.key == path.stem and facts.environment == entry.name:
            mark_used(path)
            return facts
    return None


def facts_files(entry: EnvironmentEntry, package: Package, workspace: Workspace, wish: Wish) -> Iterator[Path]:
    """Where facts would be that hold for a wish, those of the widest observation first; none where none are wished."""
    if not wish.use_cache:
        return
    widest = replace(wish, evaluate=True, score=True, only_replies=False)
    for wider in dict.fromkeys((widest, replace(wish, only_replies=False), wish)):
        yield facts_file(workspace, entry.name, facts_key(entry, package, wider))


def facts_file(workspace: Workspace, environment: str, key: str) -> Path:
    """Where facts of this key are kept."""
    return workspace.facts / environment / f"{key}.json"


def replace_facts(facts: Facts, workspace: Workspace) -> None:
    """Write facts, and remove what was judged from those that had their key. Raises `OSError`."""
    path = facts_file(workspace, facts.environment, facts.key)
    forget_verdicts(path)
    write_facts(facts, path)


def forget_verdicts(facts: Path) -> None:
    """Remove what was judged from the facts in a file."""
    for path in facts.parent.glob(f"{facts.stem}.*{VERDICT}"):
        path.unlink(missing_ok=True)


def remember(facts: Facts, workspace: Workspace) -> str:
    """Keep facts for the next run, and no more than a few of each environment; why that failed, or nothing."""
    folder = workspace.facts / facts.environment
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < ROOM_BYTES:  # it may be what broke the environment
            raise OSError("the disk is full")
        replace_facts(facts, workspace)
        Journal.of(workspace, facts.environment, facts.key).forget()
        old = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[FACTS_KEPT:]:
            path.unlink(missing_ok=True)
            forget_verdicts(path)
    except OSError as error:  # a full disk or a read-only cache costs time, not truth
        return f"{facts.environment}: its facts could not be kept, the next run observes again ({error})"
    return ""
