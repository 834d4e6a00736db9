"""Which environments a change touches, as git tells it: commits, working tree and untracked files."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envops.declare.document import parse_document
from envops.declare.problem import DeclarationError, Problem
from envops.declare.registry import REGISTRY_FILE, EnvironmentEntry, load_registry, registry_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SHARED_FOLDERS = ("tools",)
"""Whatever changes below these can change what the gates say of any environment."""
SHARED_FILES = ("noxfile.py", "pyproject.toml")
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Variables that git sets for a hook; they would point it at something else than the root."""
DEFAULT_BASES = ("origin/HEAD", "origin/main", "main")


@dataclass(frozen=True)
class Change:
    """What a change touches. With `everything`, every environment is concerned, whatever `names` says."""

    names: frozenset[str]
    """Environments whose folder exists, by distribution name."""
    everything: bool
    reason: str
    """In words, for the report."""
    removed: frozenset[str] = frozenset()
    """Environments whose folder is gone."""


def changed_environments(root: Path, base: str | None = None) -> Change:
    """What differs between the commit where this branch left `base` and the working tree.

    Without `base` it is the remote's main branch, or `main`. Raises `DeclarationError` when
    there is no such commit, or not enough history to compare with it.
    """
    root = root.resolve()
    fork = _fork_point(root, base)
    files = _changed_files(root, fork)
    shared = sorted(file for file in files if _is_shared(file))
    if shared:
        more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        return Change(frozenset(), True, f"{shared[0]}{more} changed, which every environment depends on")
    folders = {file.split("/")[1] for file in files if file.startswith("environments/") and file.count("/") > 1}
    existing = {folder for folder in folders if (root / "environments" / folder / "pyproject.toml").exists()}
    names = {folder.replace("_", "-") for folder in existing}
    if REGISTRY_FILE in files:
        before = _entries_at(root, fork)
        if before is None:
            return Change(frozenset(), True, f"{REGISTRY_FILE} changed, and what it was before cannot be read")
        names |= _changed_entries(before, dict(load_registry(root).environments))
    since = f"since {fork[:12]}"
    reason = f"changed {since}: {', '.join(sorted(names))}" if names else f"no environment changed {since}"
    removed = {folder.replace("_", "-") for folder in folders - existing}
    return Change(frozenset(names), False, reason, frozenset(removed))


def _is_shared(file: str) -> bool:
    return file in SHARED_FILES or file.split("/")[0] in SHARED_FOLDERS


def _changed_entries(before: dict[str, EnvironmentEntry], now: dict[str, EnvironmentEntry]) -> set[str]:
    """Names whose declaration is new or says something else than before, wherever it stands."""
    return {
        name
        for name, entry in now.items()
        if name not in before or replace(entry, line=None) != replace(before[name], line=None)
    }


def _entries_at(root: Path, commit: str) -> dict[str, EnvironmentEntry] | None:
    shown = _git(root, "show", f"{commit}:./{REGISTRY_FILE}")
    if shown.returncode != 0:
        return None
    try:
        text = shown.stdout.decode()
        return dict(registry_of(parse_document(text, REGISTRY_FILE)).environments)
    except (DeclarationError, UnicodeDecodeError):
        return None


def _changed_files(root: Path, fork: str) -> set[str]:
    """Paths from the root; a renamed file counts at both of its places."""
    changed = _git(root, "diff", "--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z", fork, "--")
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    for answer in (changed, untracked):
        if answer.returncode != 0:
            raise _refusal("git cannot tell what changed", answer.stderr.decode(errors="replace").strip())
    return {os.fsdecode(name) for name in (changed.stdout + untracked.stdout).split(b"\0") if name}


def _fork_point(root: Path, base: str | None) -> str:
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if head.returncode != 0:
        found = head.stderr.decode(errors="replace").strip() or str(root)
        raise _refusal("there is no commit here to compare with", found)
    commit = _commit(root, [base] if base else DEFAULT_BASES)
    if commit is None:
        found = base or ", ".join(DEFAULT_BASES)
        raise _refusal("there is no such commit to compare with", found, fix=_fix_for_history(root))
    fork = _git(root, "merge-base", commit, "HEAD")
    if fork.returncode != 0:
        message = "the history that is here does not reach the commit where this branch left its base"
        raise _refusal(message, base or commit[:12], fix=_fix_for_history(root))
    return fork.stdout.decode().strip()


def _commit(root: Path, names: Iterable[str]) -> str | None:
    for name in names:
        found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if found.returncode == 0:
            return found.stdout.decode().split()[-1]
    return None


def _fix_for_history(root: Path) -> str:
    if _git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true":
        return "the clone is shallow: git fetch --unshallow, or fetch-depth: 0 in actions/checkout"
    return "git fetch origin, or name another base: nox -s validate -- --changed BASE"


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, env=kept, check=False)
    except FileNotFoundError:
        raise _refusal("git is not installed", "", fix="install git") from None


def _refusal(message: str, found: str, fix: str = "") -> DeclarationError:
    return DeclarationError([Problem(".git", None, message, found=found, fix=fix)])
