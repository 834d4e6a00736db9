"""`envwright bump`: raise the version of environments by one step, in pyproject.toml and nowhere else."""

from __future__ import annotations

import argparse
from pathlib import Path

from packaging.version import InvalidVersion, Version

from envwright import exit_codes
from envwright.cli import arguments
from envwright.declarations.problem import DeclarationError, Problem
from envwright.declarations.registry import load_registry
from envwright.packages.pyproject import read_pyproject
from envwright.packages.repository import Repository
from envwright.packages.versions import next_versions, write_version

EXAMPLES = """examples:
  envwright bump reverse-text                 0.1.2 to 0.1.3: nothing that can change a reward
  envwright bump reverse-text --minor         0.1.2 to 0.2.0: rewards can have changed
  envwright bump reverse-text --above 0.4.1   to 0.4.2: past what is on the Hub
"""

_PLACES = ("patch", "minor", "major")


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("names", nargs="+", metavar="NAME", help="environments")
    arguments.root(command)
    step = command.add_mutually_exclusive_group()
    step.add_argument("--minor", action="store_const", dest="step", const="minor", help="rewards can have changed")
    step.add_argument("--major", action="store_const", dest="step", const="major", help="users must adapt")
    command.add_argument("--above", metavar="VERSION", help="the version to raise, if it is higher")
    command.set_defaults(step="patch")


def run(options: argparse.Namespace) -> int:
    """Raise each, or none if one of them cannot be raised."""
    root: Path = options.root
    registry = load_registry(root)
    names = Repository(root, registry, {}).select(options.names)
    raised = [_raised(root, registry.environments[name].folder_name, options.step, options.above) for name in names]
    for name, (path, before, after) in zip(names, raised, strict=True):
        write_version(path, after, path.relative_to(root).as_posix())
        print(f"{name}: {before} → {after}")
    return exit_codes.PASS


def _raised(root: Path, folder: str, step: str, above: str | None) -> tuple[Path, str, str]:
    path = root / "environments" / folder / "pyproject.toml"
    pyproject = read_pyproject(path, root)
    before = pyproject.table("project").get("version")
    try:
        start = str(max(Version(str(before)), Version(above or str(before))))
        return path, str(before), next_versions(start)[_PLACES.index(step)]
    except InvalidVersion as error:
        found = above if above and above in str(error) else before
        problem = Problem(
            pyproject.file, pyproject.line("project.version"), "is not a version", "project.version", str(found)
        )
        raise DeclarationError([problem]) from None
