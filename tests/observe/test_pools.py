"""A pool that an environment keeps answers whoever asked it, in the worker and in each of its forks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BOTH = """
import os, sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from envops.observe.worker.pools import end_pools, renew_pools_in_forks

renew_pools_in_forks()
renew_pools_in_forks()  # as often as anybody likes
pool = {kind}(max_workers=1)
if {started}:
    assert pool.submit(os.path.join, "before", "it").result(20) == "before/it"
child = os.fork()
who = "worker" if child else "fork"
said = [pool.submit(os.path.join, who, str(number)) for number in range(200)]
wrong = [one for number, one in enumerate(said) if one.result(20) != f"{{who}}/{{number}}"]
if child == 0:
    end_pools()
    os._exit(1 if wrong else 0)
assert not wrong, wrong
assert os.waitpid(child, 0)[1] == 0
pool.shutdown()
print("right")
"""


@pytest.mark.parametrize("kind", ["ProcessPoolExecutor", "ThreadPoolExecutor"])
@pytest.mark.parametrize("started", [False, True])
def test_worker_and_fork_have_pools_of_their_own(tmp_path: Path, kind: str, *, started: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(BOTH.format(kind=kind, started=started))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("right\n", "")
