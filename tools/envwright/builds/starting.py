"""Starting a new process inside a virtual environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import envwright_worker
from envwright_worker.forking import Descriptors
from envwright_worker.sandbox import Sandbox

WORKER_FOLDER = Path(envwright_worker.__file__).parent
IMPORT_WORKER = f"import runpy\nrunpy.run_path({str(WORKER_FOLDER / 'make_importable.py')!r})\n"
"""The code that a virtual environment's Python runs before it can import `envwright_worker`."""
BEGIN = IMPORT_WORKER + (
    "from envwright_worker.supervisor import begin\n"
    "start = begin()\n"
    "from envwright_worker.main import main\n"  # only after the supervisor has been forked, which imports nothing more
    "main(start)\n"
)


def new_process(
    python: Path,
    folder: Path,
    environment: Mapping[str, str],
    start: Mapping[str, Any],
    sandbox: Sandbox | None,
    given: Descriptors,
) -> subprocess.Popen[bytes]:
    """A new process that `worker/main.py` starts in, under a supervisor that watches the given lifeline.

    Omitted standard streams are /dev/null.
    """
    passed = {name: descriptor for name, descriptor in given.items() if name not in ("stdin", "stdout", "stderr")}
    return subprocess.Popen(
        [python, "-s", "-P", "-c", BEGIN],
        cwd=folder,
        env={**environment, "ENVWRIGHT_START": json.dumps({**start, **passed, "sandbox": sandbox})},
        stdin=given.get("stdin", subprocess.DEVNULL),
        stdout=given.get("stdout", subprocess.DEVNULL),
        stderr=given.get("stderr", subprocess.DEVNULL),
        pass_fds=tuple(passed.values()),
        start_new_session=True,
    )
