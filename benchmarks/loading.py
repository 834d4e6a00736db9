"""Loads a repository's declarations in a process of its own and prints what that took: `loading.py FOLDER`."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import psutil
from envwright.packages.repository import Repository

before = psutil.Process().memory_info().rss
started = time.perf_counter()
repository = Repository.load(Path(sys.argv[1]))
seconds = time.perf_counter() - started
mine, children = (resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(
    json.dumps(
        {
            "environments": len(repository.packages),
            "seconds": seconds,
            "megabytes": mine + 2 * children,
            "registry_megabytes": (psutil.Process().memory_info().rss - before) / 2**20,
        }
    )
)
