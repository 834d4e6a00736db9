"""The author's own pytest tests and cases."""

from pathlib import Path

ORACLE_FILE, CASES_FILE = "tests/oracle.py", "tests/cases.yaml"


def pytest_configuration(folder: Path) -> Path:
    """The file with the package's own settings of pytest, which would look for one in all folders above as well."""
    own = (folder / name for name in ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"))
    return next((path for path in own if path.is_file()), folder / "pyproject.toml")
