"""The command that is due after a validation passed: a bump, or the next step of git."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from envwright.declarations.codeowners import PLACES
from envwright.declarations.problem import DeclarationError
from envwright.declarations.tool_source import REGISTRY_FILE
from envwright.facts.observed import Facts
from envwright.packages.changes import changed_environments
from envwright.packages.git import ContentMissing, git, head_of
from envwright.packages.release_history import release_history
from envwright.packages.repository import ENVIRONMENTS_FOLDER, Repository
from envwright.rules.engine import Subject, findings

BESIDE = (REGISTRY_FILE, *PLACES)
MOST_COMPARED = 20
"""Environments whose versions are compared with the base; reading a version at a commit takes some calls of git."""


def after_passing(repository: Repository, names: Sequence[str], changed: str | None) -> str:
    """One command: a bump if REL001 needs it, the next step of git, or nothing.

    `changed` is the base that `--changed` compares with; `None` without it.
    """
    with suppress(DeclarationError, OSError):
        return (_bump(repository, names, changed) if changed is not None else "") or _of_git(repository, names)
    return ""


def _bump(repository: Repository, names: Sequence[str], changed: str) -> str:
    change = changed_environments(repository.root, changed or None)
    for name in [name for name in names if name in change.names][:MOST_COMPARED]:
        entry, package = repository.registry.environments[name], repository.packages[name]
        if change.base is None:
            return ""
        with suppress(ContentMissing):
            history = release_history(repository.root, entry, package, change.base, change.renamed.get(name))
            subject = Subject(entry, package, Facts(name, "", package.digest), history=history)
            for finding in findings(subject, ("release",)):
                if finding.rule == "REL001" and finding.counts:
                    return finding.fix
    return ""


def _of_git(repository: Repository, names: Sequence[str]) -> str:
    """`git add`, `git commit` or `git push`, whichever is due for these environments."""
    root = repository.root
    folders = [f"{ENVIRONMENTS_FOLDER}/{repository.registry.environments[name].folder_name}" for name in names]
    listed = ("--porcelain", "--no-renames", "--untracked-files=all", "-z")
    status, prefix = git(root, "status", *listed, "--", *folders, *BESIDE), git(root, "rev-parse", "--show-prefix")
    if status.returncode != 0:
        return ""
    lines = status.stdout.decode(errors="replace").split("\0")[:-1]
    if any(line[1] != " " for line in lines):
        below = prefix.stdout.decode(errors="replace").strip()
        changed = [f"{line[3:].removeprefix(below)}/" for line in lines]
        touched = [path for path in (*folders, *BESIDE) if any(name.startswith(f"{path}/") for name in changed)]
        few = 0 < len(touched) <= 5 and head_of(root)  # a first commit needs what init wrote, too
        return f"git add {' '.join(touched)}" if few else "git add --all"
    if lines:
        return "git commit"
    ahead = git(root, "rev-list", "--count", "@{push}..HEAD")
    if ahead.returncode == 0:
        return "" if ahead.stdout.strip() == b"0" else "git push"
    remotes = git(root, "remote").stdout.decode().split()
    if not remotes or git(root, "symbolic-ref", "--quiet", "HEAD").returncode != 0:
        return ""
    return f"git push -u {'origin' if 'origin' in remotes else remotes[0]} HEAD"
