"""`envwright lock`: resolve requirements.lock again."""

from __future__ import annotations

import argparse
import sys
import threading

from envwright import exit_codes
from envwright.builds.resolve import resolve_locks, resolve_tool_locks
from envwright.cli import arguments
from envwright.declarations.problem import DeclarationError
from envwright.declarations.tool_source import TOOL_FOLDER, holds_tool
from envwright.packages.repository import Repository
from envwright.system.subprocesses import ProgramFailed
from envwright.text.plain_data import counted

EXAMPLES = """examples:
  envwright lock                 all environments
  envwright lock reverse-text    one
  envwright lock --environments --resolution lowest-direct    do the lowest allowed versions still work?

exit codes: 0 all are written, 1 a declaration is wrong, 4 some could not be resolved; the others are written
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


def run(options: argparse.Namespace) -> int:
    """Resolve the locks of the chosen environments and list those that changed.

    What is declared wrongly (exit code 1) or cannot be resolved (4) is named, and the other locks are written.
    """
    root = options.root
    repository = Repository.load(root, options.names or None, with_locks=False, set_apart=True)
    chosen = repository.select(options.names)
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
    print(f"resolving {counted(len(packages), 'lock')} …", file=sys.stderr)
    stop = threading.Event()
    unresolved: list[str] = []
    for package, changed in resolve_locks(packages, stop, options.resolution):
        if isinstance(changed, ProgramFailed):
            unresolved.append(package.name)
            print(f"{package.name}: uv could not resolve the lock:\n{changed.failure.message}", file=sys.stderr)
        else:
            print(f"{package.name}: {'renewed' if changed else 'unchanged'}")
    if not options.names and not options.environments and holds_tool(root):
        try:
            for path in resolve_tool_locks(root / TOOL_FOLDER, stop):
                print(f"{path.relative_to(root)}: written")
        except ProgramFailed as error:
            unresolved.append("the tool's own locks")
            print(f"uv could not resolve the tool's own locks:\n{error.failure.message}", file=sys.stderr)
    if unresolved:
        print(f"not resolved, and unchanged: {', '.join(unresolved)}", file=sys.stderr)
        return exit_codes.ERROR
    return exit_codes.FAIL if problems else exit_codes.PASS
