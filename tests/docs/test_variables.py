"""docs/variables.md names every environment variable that the tool reads."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OF_THE_SYSTEM = {"HOME", "PATH", "PYTHONPATH", "NO_PROXY", "TMPDIR", "LANG"}


def test_page_names_every_variable_that_is_read() -> None:
    page = (ROOT / "docs" / "variables.md").read_text("utf-8")
    sources = [path.read_text("utf-8") for path in (ROOT / "tools").rglob("*.py")]
    read = {name for text in sources for name in re.findall(r"environ(?:\.get\(|\[)\"([A-Z_]+)\"", text)}
    own = {name for text in sources for name in re.findall(r"\"(ENVWRIGHT_[A-Z_]+)\"", text)}
    of_github = {name for name in read if name.startswith("GITHUB_")}
    assert {name for name in read | own if f"`{name}`" not in page} - of_github - OF_THE_SYSTEM == set()
