"""`envops docs`: the files that are generated: from the registry, the rules, the command line and the schema."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envops import exit_codes
from envops.cli import arguments
from envops.cli.main import parser
from envops.cli.reference import CLI_FILE, REGISTRY_FILE, render_cli, render_registry
from envops.files.atomic_write import write_whole
from envops.repository.codeowners import CODEOWNERS_FILE, render
from envops.repository.registry import load_registry
from envops.repository.schema import registry_schema
from envops.rules.catalogue import CATALOGUE_FILE, render_catalogue

EXAMPLES = """examples:
  envops docs
  envops docs --check    in CI
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--check", action="store_true", help="write nothing, fail where something is out of date")
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    """Write every generated file that is out of date, or with `--check` only say which are."""
    root = options.root.absolute()
    generated = {
        CODEOWNERS_FILE: render(load_registry(root)),
        CATALOGUE_FILE: render_catalogue(),
        CLI_FILE: render_cli(parser()),
        REGISTRY_FILE: render_registry(registry_schema()),
    }
    stale = [name for name, text in generated.items() if not _is(root / name, text)]
    for name in stale:
        if options.check:
            print(f"{name} is out of date; write it anew with: nox -s docs", file=sys.stderr)
        else:
            (root / name).parent.mkdir(exist_ok=True)
            write_whole(root / name, generated[name])
            print(f"{name}: written")
    return exit_codes.FAIL if options.check and stale else exit_codes.PASS


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text
