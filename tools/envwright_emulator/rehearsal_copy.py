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
    cloned = git(root, "clone", "--quiet", "--no-hardlinks", "--no-checkout", ".", str(folder))
    if cloned.returncode:
        message = cloned.stderr.decode(errors="replace").strip()
        raise DeclarationError([Problem(str(root), None, f"cannot be cloned: {message}")])
    excluded = git(root, "rev-parse", "--git-path", "info/exclude").stdout.decode().strip()
    if (root / excluded).is_file():
        (folder / ".git/info").mkdir(exist_ok=True)
        shutil.copyfile(root / excluded, folder / ".git/info/exclude")
    git(folder, "read-tree", "HEAD")  # a file that is ignored stays tracked
    git(folder, "--work-tree", str(root), "add", "--all", "--", ".", f":!{CACHE}")
    added = git(folder, "diff", "--cached", "--quiet").returncode != 0
    if added:
        git(folder, *_AUTHOR, "commit", "--quiet", "--no-verify", "-m", "what would be merged")
    git(folder, "reset", "--quiet", "--hard")
    (root / CACHE).mkdir(exist_ok=True)
    (folder / CACHE).symlink_to((root / CACHE).resolve())
    return added
