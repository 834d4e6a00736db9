"""How a process inside a virtual environment is started anew."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import envops_worker
from envops_worker.forking import Descriptors

WORKER_FOLDER = Path(envops_worker.__file__).parent
PACKAGE = """
import importlib.util as u, sys
s = u.spec_from_file_location("envops_worker", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["envops_worker"] = m = u.module_from_spec(s)
s.loader.exec_module(m)
del sys.argv[1:]
"""
BEGIN = PACKAGE + (
    "from envops_worker.supervisor import begin\n"
    "start = begin()\n"
    "from envops_worker.main import main\n"  # only once the supervisor is apart, which imports nothing more
    "main(start)\n"
)


def new_process(
    python: Path, folder: Path, environment: Mapping[str, str], start: Mapping[str, Any], given: Descriptors
) -> subprocess.Popen[bytes]:
    """A new process that `worker/main.py` starts in, under a supervisor that watches the given lifeline.

    Standard streams that it is not given are /dev/null.
    """
    passed = {name: descriptor for name, descriptor in given.items() if name not in ("stdin", "stdout", "stderr")}
    return subprocess.Popen(
        [python, "-s", "-P", "-c", BEGIN, WORKER_FOLDER],
        cwd=folder,
        env={**environment, "ENVOPS_START": json.dumps({**start, **passed})},
        stdin=given.get("stdin", subprocess.DEVNULL),
        stdout=given.get("stdout", subprocess.DEVNULL),
        stderr=given.get("stderr", subprocess.DEVNULL),
        pass_fds=tuple(passed.values()),
        start_new_session=True,
    )
