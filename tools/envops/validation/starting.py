"""Starting a new process inside a virtual environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import envops_worker
from envops_worker.forking import Descriptors
from envops_worker.sandbox import Sandbox

WORKER_FOLDER = Path(envops_worker.__file__).parent
IMPORT_WORKER = f"import runpy\nrunpy.run_path({str(WORKER_FOLDER / 'make_importable.py')!r})\n"
"""The code that a virtual environment's Python runs before it can import `envops_worker`."""
BEGIN = IMPORT_WORKER + (
    "from envops_worker.supervisor import begin\n"
    "start = begin()\n"
    "from envops_worker.main import main\n"  # only after the supervisor has been forked, which imports nothing more
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
        env={**environment, "ENVOPS_START": json.dumps({**start, **passed, "sandbox": sandbox})},
        stdin=given.get("stdin", subprocess.DEVNULL),
        stdout=given.get("stdout", subprocess.DEVNULL),
        stderr=given.get("stderr", subprocess.DEVNULL),
        pass_fds=tuple(passed.values()),
        start_new_session=True,
    )
