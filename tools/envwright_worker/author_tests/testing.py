"""The author's tests in a process of their own: pytest as on a command line, with the plugin.

python -c RUN_PYTEST '{"settings": …, "toolbox": …}' [pytest arguments]
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from envwright_worker.adapters.adapter import Settings
from envwright_worker.author_tests.grader import Grader
from envwright_worker.channel import Channel
from envwright_worker.confinement import NetworkGuard
from envwright_worker.failures import Sources
from envwright_worker.session import Session


def main() -> int:
    """Run pytest and return its exit code."""
    asked = json.loads(sys.argv[1])
    arguments = sys.argv[2:]
    sys.argv[1:] = arguments
    sys.path.append(asked["toolbox"])
    import pytest

    from envwright_worker.author_tests.plugin import AuthorsPlugin

    settings = Settings.parse(asked["settings"])
    guard = NetworkGuard(Sources(settings.overlay, settings.package), settings.allow_network)
    guard.watch()  # from the start, as in the gates: not only once the environment is loaded
    grader = Grader(lambda: opened(asked["settings"], guard))
    try:
        return int(pytest.main(arguments, plugins=[AuthorsPlugin.over(grader)]))
    finally:
        grader.close()


def opened(settings: Mapping[str, Any], guard: NetworkGuard | None = None) -> Session:
    """A session with the environment loaded, whose facts are not sent."""
    from envwright_worker.operations import load

    session = Session(Channel(BytesIO(), BytesIO()), guard)
    load.answer(session, {"settings": dict(settings)})
    return session


def settings_of(folder: Path) -> dict[str, Any]:
    """Settings of an environment that is installed beside pytest, as far as its folder declares them."""
    import importlib

    import yaml

    sys.path += [str(root) for root in (folder, folder / "src") if root.is_dir() and str(root) not in sys.path]
    module = importlib.import_module(folder.name)
    file = Path(str(module.__file__))
    registry = folder.parents[1] / "registry.yaml"
    declared = yaml.safe_load(registry.read_text("utf-8")) if registry.is_file() else {}
    entries = (declared or {}).get("environments") or {}
    entry = next((found for name, found in entries.items() if _canonical(name) == _canonical(folder.name)), None) or {}
    return {
        "module": folder.name,
        "generation": "v0" if hasattr(module, "load_environment") else "v1",
        "args": entry.get("args") or {},
        "package": str(folder),
        "overlay": str(file.parents[1] if file.name == "__init__.py" else file.parent),
        "allow_network": True,
    }


def _canonical(name: str) -> str:
    """A name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
