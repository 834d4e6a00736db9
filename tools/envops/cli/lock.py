"""`envops lock`: resolve requirements.lock again, for each environment or for those that share a lock."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from envops import exit_codes
from envops.cli import arguments
from envops.repository.lock import LOCK_FILE
from envops.repository.package import Package
from envops.repository.problem import DeclarationError
from envops.repository.registry import load_registry
from envops.repository.repository import Repository
from envops.repository.shared_lock import SHARED_FOLDER, is_shared_name, shared_path, users_of
from envops.repository.tool_source import TOOL_FOLDER, holds_tool
from envops.system.subprocesses import ProgramFailed
from envops.validation.resolve import resolve_locks, resolve_tool_locks
from envops.validation.resolve_shared import resolve_shared, resolver, share_locks

EXAMPLES = """examples:
  envops lock                 all environments
  envops lock reverse-text    one, and those that share its lock
  envops lock --environments --resolution lowest-direct    do the lowest allowed versions still work?
  envops lock --shared v1     one lock for all that can have it, locks/v1.lock; versions stay where they agree
  envops lock --own gsm8k     a lock of its own again
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command, changed=False)
    command.add_argument("--environments", action="store_true", help="do not update the tool's own locks")
    command.add_argument(
        "--resolution",
        choices=("highest", "lowest-direct"),
        default="highest",
        help="highest allowed versions, or the lowest of direct requirements (default: highest)",
    )
    places = command.add_mutually_exclusive_group()
    places.add_argument(
        "--shared",
        type=_shared_name,
        metavar="LOCK",
        help=f"move the environments to {SHARED_FOLDER}/LOCK.lock, as far as their requirements allow",
    )
    places.add_argument("--own", action="store_true", help="give environments that share a lock their own")


def _shared_name(text: str) -> str:
    if not is_shared_name(text):
        allowed = "use lower-case letters and digits, with single - _ . between them"
        raise argparse.ArgumentTypeError(f"{text!r} is not a name: {allowed}")
    return text


def run(options: argparse.Namespace) -> int:
    """Resolve the locks of the chosen environments and list those that changed; a broken one is left out and fails."""
    root = options.root.absolute()
    wanted = _wanted(root, options)
    repository = Repository.load(root, wanted or None, with_locks=False, set_apart=True)
    chosen = repository.select(wanted)
    packages = [repository.packages[name] for name in chosen if name not in repository.broken]
    problems = [problem for name in chosen for problem in repository.broken.get(name, ())]
    if problems and not packages:
        raise DeclarationError(problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    for package in packages:
        if package.sources_left_out:
            left_out = ", ".join(package.sources_left_out)
            message = "taken from the package index: their source in [tool.uv.sources] is not a git repository"
            print(f"{package.name}: {left_out}: {message}", file=sys.stderr)
    print(f"resolving {len(packages)} lock(s) …", file=sys.stderr)
    try:
        for package, outcome in _resolved(root, packages, options):
            print(f"{package.name}: {outcome}")
        own = not options.names and not options.environments and not options.shared and not options.own
        if own and holds_tool(root):
            for path in resolve_tool_locks(root / TOOL_FOLDER, threading.Event()):
                print(f"{path.relative_to(root)}: written")
    except ProgramFailed as error:
        print(f"uv could not resolve the lock:\n{error.failure.message}", file=sys.stderr)
        return exit_codes.ERROR
    for path in _unused(root):
        print(f"{path.relative_to(root)}: no environment uses it; remove it", file=sys.stderr)
    return exit_codes.FAIL if problems else exit_codes.PASS


def _wanted(root: Path, options: argparse.Namespace) -> list[str]:
    """The named environments, and those that share a lock with them; none for all."""
    if not options.names or options.own:
        return list(options.names)
    entries = load_registry(root).environments
    by_folder = {entry.folder_name: name for name, entry in entries.items()}
    named = {entries[name].folder_name for name in options.names if name in entries}
    beside: dict[str, None] = {}
    for lock, folders in users_of(root).items():
        users = [folder.name for folder in folders if folder.name in by_folder]
        if lock == options.shared if options.shared else named & {*users}:
            beside |= dict.fromkeys(by_folder[folder] for folder in users)
    return list(dict.fromkeys([*options.names, *beside]))


def _resolved(root: Path, packages: Sequence[Package], options: argparse.Namespace) -> Iterator[tuple[Package, str]]:
    """The outcome for the lock of each environment."""
    stop = threading.Event()
    resolve = resolver(stop, options.resolution)
    locks = {folder: lock for lock, folders in users_of(root).items() for folder in folders}
    groups: dict[str, list[Package]] = {options.shared: list(packages)} if options.shared else {}
    alone: list[Package] = []
    for package in packages if not options.shared else ():
        lock = None if options.own else locks.get(package.folder)
        (alone if lock is None else groups.setdefault(lock, [])).append(package)
    for lock, users in groups.items():
        print(f"{shared_path(root, lock).relative_to(root)}: {len(users)} environments", file=sys.stderr)
        for one in (share_locks if options.shared else resolve_shared)(root, lock, users, resolve):
            if not one.apart:
                yield one.package, f"{'renewed' if one.changed else 'unchanged'}, {SHARED_FOLDER}/{lock}.lock"
                continue
            print(f"{one.package.name}: not in {SHARED_FOLDER}/{lock}.lock: {one.apart}", file=sys.stderr)
            if one.package.folder in locks or not (one.package.folder / LOCK_FILE).is_file():
                alone.append(one.package)
            else:
                yield one.package, "unchanged"
    for package, changed in resolve_locks(alone, stop, options.resolution):
        yield package, "renewed" if changed else "unchanged"


def _unused(root: Path) -> Iterator[Path]:
    users = users_of(root)
    yield from (path for path in sorted((root / SHARED_FOLDER).glob("*.lock")) if path.stem not in users)
