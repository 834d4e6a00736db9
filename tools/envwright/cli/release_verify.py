"""`envwright release verify`: install and load what a release published, in a process without a key."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.files.atomic_write import write_whole
from envwright.packages.git import git
from envwright.packages.repository import Repository
from envwright.release.ledger import LEDGER, PUBLISHED, LedgerEntry, LedgerUnreadable, read_ledger
from envwright.release.loading import LOADED, Loader, loaded_text
from envwright.release.publishing import Verified
from envwright.system.subprocesses import Interrupted, terminated_like_interrupted
from envwright.system.workspace import Workspace
from envwright.text.visible_text import on_one_line

EXAMPLES = """examples:
  envwright release verify published/     the reports of a release with --evidence-only

it runs the published code, so it must not have a key, and ends with exit code 2 if PRIME_API_KEY is set
reports/loaded.json has the results, for: envwright release join
exit codes: 0 everything loads, 1 something does not, 4 something could not be tried
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", type=Path, metavar="FOLDER", help="the folder with release.json and published/")
    arguments.root(command)
    arguments.reports(command, "loaded.json goes")
    command.add_argument("-q", "--quiet", action="store_true", help="report only packages that do not load")


def run(options: argparse.Namespace) -> int:
    """Load every wheel that the ledger waits for; write loaded.json after each."""
    root: Path = options.root.absolute()
    reports: Path = options.reports or root / "reports"
    if os.environ.get("PRIME_API_KEY"):
        print("release verify runs published code and must not have a key: unset PRIME_API_KEY", file=sys.stderr)
        return exit_codes.USAGE
    try:
        ledger = read_ledger(options.folder / LEDGER)
        commit = git(root, "rev-parse", "HEAD").stdout.decode().strip()
        if commit != ledger.commit:
            raise LedgerUnreadable(
                f"{options.folder / LEDGER} is about {ledger.commit[:12]}, and here is {commit[:12]}"
            )
        waiting = [entry for entry in ledger.entries if entry.waits_for_loading]
        with terminated_like_interrupted():
            loaded = _loaded(root, options.folder / PUBLISHED, waiting, reports, commit, quiet=options.quiet)
    except LedgerUnreadable as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    except Interrupted:
        return exit_codes.INTERRUPTED
    if all(verified.sound for verified in loaded.values()):
        return exit_codes.PASS
    return exit_codes.FAIL if any(each.seen and not each.sound for each in loaded.values()) else exit_codes.ERROR


def _loaded(
    root: Path, folder: Path, waiting: list[LedgerEntry], reports: Path, commit: str, *, quiet: bool
) -> dict[str, Verified]:
    loader = Loader(Workspace(root), folder.absolute(), threading.Event())
    loaded: dict[str, Verified] = {}
    write_whole(reports / LOADED, loaded_text(commit, loaded))
    if not waiting:
        return loaded
    repository = Repository.load(root, [entry.step.desired.name for entry in waiting])
    for entry in waiting:
        desired = entry.step.desired
        declared, package = repository.registry.environments[desired.name], repository.packages[desired.name]
        loaded[desired.name] = loader.load(entry, declared, package)
        said = loaded[desired.name]
        if not (quiet and said.sound):
            print(on_one_line(f"{desired.address}@{desired.version}: {said.message}"), file=sys.stderr, flush=True)
        write_whole(reports / LOADED, loaded_text(commit, loaded))
    return loaded
