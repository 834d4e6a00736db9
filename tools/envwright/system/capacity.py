"""The cores and memory of this machine, within the limits of its container."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

CONTROL_GROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Cores that this process may run on; at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError, IndexError):
        quota, period = (CONTROL_GROUP / "cpu.max").read_text().split()[:2]
        cores = min(cores, round(int(quota) / int(period)))  # raises for "max", which means no limit
    return max(1, cores)


def available_memory() -> int:
    """Bytes that can be used without swapping; the kernel gives up cached files for them."""
    import psutil

    available = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError, KeyError):
        limit = int((CONTROL_GROUP / "memory.max").read_text())
        held = dict(line.split() for line in (CONTROL_GROUP / "memory.stat").read_text().splitlines())
        cached = int(held["active_file"]) + int(held["inactive_file"])
        available = min(available, limit - int((CONTROL_GROUP / "memory.current").read_text()) + cached)
    return max(0, available)
