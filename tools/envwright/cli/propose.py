"""`envwright ci propose`: a pull request with the locks that differ from the commit, in a workflow."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.declarations.problem import DeclarationError, Problem
from envwright.github.api import GitHub, GitHubError
from envwright.github.lock_proposal import propose
from envwright.packages.git import git
from envwright.packages.lock import LOCK_FILE
from envwright.packages.repository import Repository
from envwright.text.markdown import code_span, table_cell

EXAMPLES = """examples:
  envwright ci propose             after `envwright lock --environments`, in a job with GITHUB_TOKEN
  envwright ci propose --dry-run   print the text of the pull request instead

only requirements.lock of declared environments is proposed, whatever else differs; one that cannot be read is refused
needs GITHUB_REPOSITORY and GITHUB_TOKEN (contents: write, pull-requests: write)
"""
MOST_ROWS = 300
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?(?:==|\s*@\s*)(\S+)", re.MULTILINE)


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
        locks[package.name] = (before.decode("utf-8", "replace"), files[path])
    if not files:
        print("no lock differs: nothing to propose", file=sys.stderr)
        return exit_codes.PASS
    text = render_lock_difference(locks, os.environ.get("GITHUB_RUN_ID", "of this machine"))
    if options.dry_run:
        print(text, end="")
        return exit_codes.PASS
    target = os.environ.get("GITHUB_REF_NAME", "main")  # at night, the default branch
    try:
        print(f"pull request with {len(locks)} locks: {propose(GitHub.of_workflow(), head, files, text, target)}")
    except GitHubError as error:
        print(f"GitHub: {error}", file=sys.stderr)
        return exit_codes.ERROR
    return exit_codes.PASS


def _at(root: Path, path: str) -> bytes | None:
    shown = git(root, "show", f"HEAD:{path}")
    return shown.stdout if shown.returncode == 0 else None


def render_lock_difference(locks: Mapping[str, tuple[str, str]], run: str) -> str:
    """A row for each package whose version differs, by environment; `locks` has the texts before and after."""
    rows = [f"| {table_cell(name)} | {' | '.join(cells)} |\n" for name in locks for cells in _rows(*locks[name])]
    parts = [
        f"The newest versions that the environments allow. {len(locks)} locks differ; all gates passed with these.\n"
    ]
    parts.append(f"\n| environment | package | before | after |\n|---|---|---|---|\n{''.join(rows[:MOST_ROWS])}")
    if len(rows) > MOST_ROWS:
        parts.append(f"\nand {len(rows) - MOST_ROWS:,} more\n")
    return "".join([*parts, f"\nProven by the run {code_span(run)}.\n"])


def _rows(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    old, new = _pins(before), _pins(after)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield table_cell(name), table_cell(old.get(name, "–")), table_cell(new.get(name, "–"))


def _pins(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name, version in _PIN.findall(text):
        found.setdefault(name, []).append(version)
    return {name: ", ".join(versions) for name, versions in found.items()}
