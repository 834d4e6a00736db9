"""`envwright train compile`: the trainers' configurations of the declared runs, in configs/rl/."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envwright import exit_codes
from envwright.cli.train import add_runs, chosen_runs, run_result, shown_runs
from envwright.declarations.registry import load_registry
from envwright.files.atomic_write import write_whole
from envwright.training.declared_runs import leftover_configs, write_configs

EXAMPLES = """examples:
  envwright train compile                         every declared run, into configs/rl/
  envwright train compile --check                 in CI: fail if a file is out of date
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_runs(command)
    command.add_argument("--check", action="store_true", help="write nothing, exit with 1 if a file differs")


def run(options: argparse.Namespace) -> int:
    """Write the configurations, or with `--check` only list those out of date; the exit code."""
    root = options.root.absolute()
    runs = chosen_runs(root, load_registry(root), options.names)

    def keep(_path: Path, _text: str) -> None:
        """Write nothing, and report differences."""

    changed = write_configs(root, runs, keep if options.check else write_whole)
    leftover = [] if options.names else leftover_configs(root, runs)
    results = [run_result(run) for run in runs]
    print(shown_runs(results, changed, options), end="")
    for name in leftover:
        print(f"{name}: its run is no longer declared; remove it", file=sys.stderr)
    if options.check:
        for name in changed:
            print(f"{name} is out of date; update it with: envwright train compile", file=sys.stderr)
    stale = options.check and (changed or leftover)
    return exit_codes.FAIL if stale or any(run.fails for run in runs) else exit_codes.PASS
