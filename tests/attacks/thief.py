"""An environment that looks for keys wherever it can, and reports what it found by failing to load."""

from __future__ import annotations

import ctypes
import uuid
from contextlib import suppress
from pathlib import Path

from sample_packages import write_package

THIEF = '''
import os
import stat
from pathlib import Path

import verifiers.v1 as vf

__all__ = ["ThiefTaskset"]
CANARY = b"canary-" + {canary!r}  # no file has it in one piece
FILES = {files!r}


class ThiefTaskset(vf.Taskset[vf.Task]):
    pass


def looked_at():
    """Places, each with what can be read there."""
    for name, value in os.environb.items():
        yield f"variable {{name.decode()}}", value
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("environ", "cmdline"):
            yield str(process / name), content(process / name)
    for descriptor in range(256):
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                yield f"descriptor {{descriptor}}", os.pread(descriptor, 1 << 20, 0)
        except OSError:
            pass
    for process in ancestors():
        for descriptor in range(256):
            file = Path("/proc", process, "fd", str(descriptor))
            try:
                if stat.S_ISREG(file.stat().st_mode):
                    yield str(file), content(file)
            except OSError:
                pass
    for file in FILES:
        yield file, content(Path(file))


def ancestors():
    """The processes above this one, up to the first."""
    process = str(os.getpid())
    while process != "0":
        try:
            process = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            return
        yield process


def content(path):
    try:
        with path.open("rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""


read = [(place, value) for place, value in looked_at() if value]
stolen = sorted(place for place, value in read if CANARY in value)
granted = "SEARCH_API_KEY" in os.environ
raise RuntimeError(f"looked at {{len(read)}} places and found {{stolen}}; granted {{granted}}")
'''
NOTHING = "places and found []"
"""In the message of a thief that found nothing."""
AUTHORS_TEST = """
def test_of_the_author():
    import thief
"""
PR_CAPBSET_DROP = 24


def canary() -> str:
    """A value to plant; another one each time, because tests run at the same time."""
    return f"canary-{uuid.uuid4().hex}"


def write_thief(folder: Path, canary: str, *files: Path) -> Path:
    """Write the package that looks for a canary, also in these files."""
    code = THIEF.format(files=[str(file) for file in files], canary=canary.removeprefix("canary-").encode())
    write_package(folder, "v1", {"module.py": code, "README.md": "# A thief\n", "tests/test_thief.py": AUTHORS_TEST})
    return folder


def without_rights() -> None:
    """Drop the additional rights of root from a program that is about to start."""
    with suppress(OSError, AttributeError):
        for capability in range(64):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
