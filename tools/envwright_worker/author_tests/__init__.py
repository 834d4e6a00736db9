"""The author's own pytest tests and cases."""

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ORACLE_FILE, CASES_FILE = "tests/oracle.py", "tests/cases.yaml"


def pytest_configuration(folder: Path) -> Path:
    """The file with the package's own settings of pytest, which would look for one in all folders above as well."""
    own = (folder / name for name in ("pytest.ini", ".pytest.ini"))
    return next((path for path in own if path.is_file()), folder / "pyproject.toml")


def add_toolbox(folder: str) -> list[str]:
    """Make pytest and its usual plugins importable where the lock lacks them; returns pytest's options for that."""
    has_asyncio = find_spec("pytest_asyncio") is not None
    sys.path.append(folder)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.gettempdir()  # else it writes into the package
    import pytest

    # the toolbox's pytest-asyncio needs pytest 8.2, and the lock may have an earlier one
    return [] if has_asyncio or pytest.version_tuple >= (8, 2) else ["-p", "no:asyncio"]
