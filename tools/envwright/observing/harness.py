"""The installation of a v1 harness other than the worker's own."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from envwright.builds.uv import uv_program
from envwright.observing.job import Job
from envwright.system.workspace import Workspace, mark_used
from envwright.text.scrubbing import holds_password, without_secrets

SET_UP_SECONDS = 600.0
LONGEST_RUN_SECONDS = 86_400.0
_OF_THE_NETWORK = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


def seat_harness(job: Job, name: str, workspace: Workspace, *, allow_network: bool) -> None:
    """Let a harness set itself up in a job.

    Raises `StageFailed` with a failure of kind `harness` if it cannot.
    """
    _sweep(workspace.harnesses)
    seat = {
        "id": name,
        "uv": str(uv_program()),
        "cache": str(workspace.harnesses.resolve()),
        "allow_network": allow_network,
        "variables": settings_without_secrets() if allow_network else {},
    }
    list(job.request("harness", SET_UP_SECONDS + 30, stage="smoke", seat=seat, seconds=SET_UP_SECONDS))


def _sweep(cache: Path) -> None:
    """Remove virtual environments that uv made for harnesses in earlier runs, because each run makes its own."""
    cache.mkdir(parents=True, exist_ok=True)
    mark_used(cache)
    for folder in cache.glob("environments-*/*/"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > LONGEST_RUN_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def settings_without_secrets() -> dict[str, str]:
    """The user's settings of uv and the network, without secrets, because the environment's code can read them."""
    return {
        name: value
        for name, value in without_secrets(os.environ).items()
        if (name.startswith("UV_") or name in _OF_THE_NETWORK) and not holds_password(value)
    }
