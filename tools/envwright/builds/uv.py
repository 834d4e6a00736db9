"""The uv that was installed with the tool."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from envwright.text.scrubbing import SECRET_NAME

NO_SETTINGS = "UV_NO_CONFIG"
_finding_uv = threading.Lock()


@cache
def uv_program() -> Path:
    """The uv that was installed with the tool."""
    from uv import find_uv_bin

    with _finding_uv:  # it calls sysconfig, whose first result is wrong when two threads call it at once
        return Path(find_uv_bin())


def uv_environment() -> Mapping[str, str]:
    """The user's variables without those that select another virtual environment, and without secrets but uv's own.

    uv reads no settings but these: it would obey a stranger's `[tool.uv]`, in the folder that it runs in or above. A
    file of settings that the user names in UV_CONFIG_FILE is read.
    """
    unwanted = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_PROJECT_ENVIRONMENT"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in unwanted and (name.startswith("UV_") or not SECRET_NAME.search(name))
    }
    own = {} if "UV_CONFIG_FILE" in kept else {NO_SETTINGS: "1"}
    return {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", **kept, **own}
