"""`envwright cache warm`: download the packages of locks into uv's cache, for later jobs."""

from __future__ import annotations

import argparse
import sys
import threading

from envwright import exit_codes
from envwright.builds.venv import download
from envwright.builds.wheel import BUILD_LOCK, TESTS_LOCK
from envwright.cli import arguments
from envwright.observing.stages.search import SEARCH_LOCK
from envwright.packages.lock import LOCK_FILE
from envwright.packages.repository import Repository
from envwright.system.subprocesses import Interrupted, ProgramFailed, terminated_like_interrupted
from envwright.text.visible_text import on_one_line

EXAMPLES = """examples:
  envwright cache warm     in the CI job whose cache the others restore

downloaded code is not run; a lock with a package that needs a build is left out, because a build runs code
exit codes: 0 done, 4 a lock was left out
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    """Download the packages of every lock once, and return the exit code."""
    packages = Repository.load(options.root.absolute(), set_apart=True).packages.values()
    locks = [BUILD_LOCK, TESTS_LOCK, SEARCH_LOCK, *(package.folder / LOCK_FILE for package in packages)]
    different = {lock.read_bytes(): lock for lock in reversed(locks) if lock.is_file()}
    stop, left_out = threading.Event(), 0
    with terminated_like_interrupted():
        for number, lock in enumerate(reversed(different.values()), start=1):
            name = f"{lock.parent.name}/{lock.name}"
            print(f"{number}/{len(different)} {name}", file=sys.stderr)
            try:
                download(lock, stop)
            except ProgramFailed as error:
                left_out += 1
                print(f"{name} was left out: {on_one_line(error.failure.message)}", file=sys.stderr)
            except (Interrupted, KeyboardInterrupt):
                return exit_codes.INTERRUPTED
    return exit_codes.ERROR if left_out else exit_codes.PASS
