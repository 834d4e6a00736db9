"""Results in git: what commands write and read again may not come from a commit.

Otherwise a pull request could bring its own evidence, or programs that run in place of those that are installed.
"""

from __future__ import annotations

import os
from pathlib import Path

from envwright.declarations.problem import DeclarationError, Problem
from envwright.packages.git import git
from envwright.system.workspace import users_folder

RESULTS = (".envwright", ".nox", "reports")
"""Folders of a repository that no commit may fill. The first is the cache, the second the tool's own installation."""


def refuse_committed_results(root: Path, *evidence: Path | None) -> None:
    """Raise `DeclarationError` where git tracks a file below the repository's folders for results, or the evidence.

    Nothing is tracked where there is no repository; where there is one, a failure of git is reported.
    """
    top = root.resolve()
    if not any(os.path.lexists(folder / ".git") for folder in (top, *top.parents)):
        return
    names = [*RESULTS, *_inside(top, *evidence, users_folder())]
    # another spelling is the same folder on some file systems
    listed = git(top, "--icase-pathspecs", "ls-files", "-z", "--", *names)
    if listed.returncode != 0:
        said = listed.stderr.decode(errors="replace").strip()
        raise DeclarationError([Problem(".git", None, "git cannot list the files that it tracks", found=said)])
    tracked = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    if tracked:
        raise DeclarationError(_problems(tracked))


def _inside(root: Path, *places: Path | None) -> list[str]:
    found = (place.resolve() for place in places if place is not None)
    return [str(place.relative_to(root)) for place in found if place != root and place.is_relative_to(root)]


def _problems(tracked: list[str]) -> list[Problem]:
    by_folder: dict[str, list[str]] = {}
    for name in tracked:
        by_folder.setdefault(name.partition("/")[0], []).append(name)
    return [
        Problem(
            names[0].encode(errors="backslashreplace").decode(),
            None,
            "is tracked by git, but may only be written by commands on this machine",
            found=f"{len(names)} tracked in {folder}" if len(names) > 1 else "",
            fix=f"git rm -r --cached {folder}",
        )
        for folder, names in by_folder.items()
    ]
