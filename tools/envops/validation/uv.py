"""The uv that was installed with the tool."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from envops.text.scrubbing import SECRET_NAME

_finding_uv = threading.Lock()


def uv_program() -> Path:
    """The uv that was installed with the tool."""
    with _finding_uv:  # it calls sysconfig, whose first result is wrong when two threads call it at once
        return _found_uv()


@cache
def _found_uv() -> Path:
    from uv import find_uv_bin

    return Path(find_uv_bin())


def uv_environment() -> Mapping[str, str]:
    """The user's variables without those that select another virtual environment, and without secrets.

    A lock may pin a package that has to be built, and its build gets uv's variables; uv's own settings stay.
    """
    unwanted = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_PROJECT_ENVIRONMENT"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in unwanted and (name.startswith("UV_") or not SECRET_NAME.search(name))
    }
    return {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", **kept}
