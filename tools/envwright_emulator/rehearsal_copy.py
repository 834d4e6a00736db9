"""A temporary copy of a repository for a rehearsal, in the state after a merge of everything here."""

from __future__ import annotations

import shutil
from pathlib import Path

from envwright.declarations.problem import DeclarationError, Problem
from envwright.packages.git import git

CACHE = ".envwright"
_AUTHOR = ("-c", "user.name=rehearsal", "-c", "user.email=rehearsal@example.org", "-c", "commit.gpgsign=false")


def rehearsal_copy(root: Path, folder: Path) -> bool:
    """Clone the repository into a folder and commit uncommitted changes there; returns whether there were any.

    The cache is shared, so that nothing is validated twice. Raises `DeclarationError` if there is no repository or no
    commit.
    """
    if git(root, "rev-parse", "--verify", "HEAD").returncode:
        fix = "git init, git add -A, git commit: a release publishes committed files"
        raise DeclarationError([Problem(str(root), None, "is not a git repository with a commit", fix=fix)])
    cloned = git(root, "clone", "--quiet", "--no-hardlinks", ".", str(folder))
    if cloned.returncode:
        message = cloned.stderr.decode(errors="replace").strip()
        raise DeclarationError([Problem(str(root), None, f"cannot be cloned: {message}")])
    (root / CACHE).mkdir(exist_ok=True)
    (folder / CACHE).symlink_to((root / CACHE).resolve())
    for name in _names(folder, "--cached"):
        if not (root / name).exists() and not (root / name).is_symlink():
            (folder / name).unlink()
    for name in _names(root, "--cached", "--others", "--exclude-standard"):
        if (root / name).is_file() or (root / name).is_symlink():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy2(root / name, target, follow_symlinks=False)
    git(folder, "add", "--all", "--", ".", f":!{CACHE}")
    if not git(folder, "status", "--porcelain", "--untracked-files=no").stdout.strip():
        return False
    git(folder, *_AUTHOR, "commit", "--quiet", "--no-verify", "-m", "what would be merged")
    return True


def _names(root: Path, *which: str) -> list[str]:
    listed = git(root, "ls-files", "-z", *which).stdout.decode(errors="surrogateescape")
    return [name for name in listed.split("\0") if name and name != CACHE]
