"""The author's own pytest tests and cases."""

import argparse
import configparser
import os
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

ORACLE_FILE, CASES_FILE = "tests/oracle.py", "tests/cases.yaml"


def pytest_configuration(folder: Path) -> Path:
    """The file with the package's own settings of pytest, which would look for one in all folders above as well."""
    own = (folder / name for name in ("pytest.ini", ".pytest.ini"))
    return next((path for path in own if path.is_file()), folder / "pyproject.toml")


def choosing_options(configuration: Path) -> list[str]:
    """The author's own options that choose among the tests. Others may need a plugin that is not installed."""
    try:
        if configuration.suffix == ".toml":
            settings = tomllib.loads(configuration.read_text("utf-8")).get("tool", {}).get("pytest", {})
            given = settings.get("ini_options", {}).get("addopts", "")
        else:
            parser = configparser.ConfigParser(interpolation=None)
            parser.read_string(configuration.read_text("utf-8"))
            given = parser.get("pytest", "addopts", fallback="")
        words = shlex.split(given) if isinstance(given, str) else list(map(str, given))
    except (OSError, ValueError, AttributeError, TypeError, configparser.Error):
        return []  # pytest itself reports a file that it cannot read
    choosing = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    flags = ("-m", "-k", "--ignore", "--ignore-glob", "--deselect")
    for flag in flags:
        choosing.add_argument(flag, dest=flag, action="append", default=[])
    try:
        chosen = vars(choosing.parse_known_args(words)[0])
    except argparse.ArgumentError:
        return []
    return [word for flag in flags for value in chosen[flag] for word in (flag, value)]


def add_folders_of(tests: Iterable[Path]) -> None:
    """Let tests import what is beside them, as pytest's default does, behind the packages that are tested."""
    for test in tests:
        folder = test.parent
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def add_toolbox(folder: str) -> list[str]:
    """Make pytest and its usual plugins importable where the lock lacks them; returns pytest's options for that."""
    has_asyncio = find_spec("pytest_asyncio") is not None
    sys.path.append(folder)
    os.environ |= {"HYPOTHESIS_STORAGE_DIRECTORY": tempfile.gettempdir()}  # else it writes into the package
    import pytest

    # the toolbox's pytest-asyncio needs pytest 8.2, and the lock may have an earlier one
    return [] if has_asyncio or pytest.version_tuple >= (8, 2) else ["-p", "no:asyncio"]
