"""`envops propose`: a pull request with the locks that differ from the commit, in a workflow."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path

from envops import exit_codes
from envops.cli import arguments
from envops.github.api import GitHub, GitHubError
from envops.github.lock_proposal import propose
from envops.reports.lock_difference import render_lock_difference
from envops.repository.git import git
from envops.repository.lock import LOCK_FILE
from envops.repository.problem import DeclarationError, Problem
from envops.repository.repository import Repository
from envops.repository.shared_lock import lock_content, shared_name, shared_path
from envops.system.scratch_folder import temporary_scratch

EXAMPLES = """examples:
  envops propose             after `envops lock --environments`, in a job with GITHUB_TOKEN
  envops propose --dry-run   print the text of the pull request instead

only requirements.lock of declared environments, and the shared locks that these name, are proposed, whatever else
differs; one that cannot be read is refused
needs GITHUB_REPOSITORY and GITHUB_TOKEN (contents: write, pull-requests: write)
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--dry-run", action="store_true", help="print the text without sending anything")
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    """Make or edit the pull request and return the exit code; without a difference nothing is done."""
    root = options.root.absolute()
    head = git(root, "rev-parse", "HEAD").stdout.decode().strip()
    if not head:
        raise DeclarationError([Problem(str(root), None, "has no commit to compare with")])
    locks: dict[str, tuple[str, str]] = {}
    files: dict[str, str] = {}
    for package in Repository.load(root).packages.values():
        path = f"{package.folder.relative_to(root).as_posix()}/{LOCK_FILE}"
        before, after = _at(root, path), (root / path).read_bytes()
        if before is None or before == after:
            continue
        files[path] = after.decode()
        named = shared_name(after)
        if named is not None:
            shared = shared_path(root, named)
            files[shared.relative_to(root).as_posix()] = shared.read_text("utf-8")
        locks[package.name] = (_whole(root, path, before), lock_content(root / path, root).decode())
    if not files:
        print("no lock differs: nothing to propose", file=sys.stderr)
        return exit_codes.PASS
    text = render_lock_difference(locks, os.environ.get("GITHUB_RUN_ID", "of this machine"))
    if options.dry_run:
        print(text, end="")
        return exit_codes.PASS
    try:
        print(f"pull request with {len(locks)} locks: {propose(GitHub.of_workflow(), head, files, text)}")
    except GitHubError as error:
        print(f"GitHub: {error}", file=sys.stderr)
        return exit_codes.ERROR
    return exit_codes.PASS


def _at(root: Path, path: str) -> bytes | None:
    shown = git(root, "show", f"HEAD:{path}")
    return shown.stdout if shown.returncode == 0 else None


def _whole(root: Path, path: str, content: bytes) -> str:
    """A lock at the commit; the part of the shared lock that it names takes its place, if that can be read."""
    with temporary_scratch("lock") as folder, suppress(ValueError, DeclarationError):
        if (name := shared_name(content)) is not None:
            shared = shared_path(folder, name)
            shared.parent.mkdir()
            shared.write_bytes(_at(root, shared.relative_to(folder).as_posix()) or b"")
            (folder / path).parent.mkdir(parents=True)
            (folder / path).write_bytes(content)
            return lock_content(folder / path, folder).decode()
    return content.decode("utf-8", "replace")
