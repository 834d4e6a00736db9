"""Bytecode of a virtual environment, made by whoever imports first and by a process that compiles ahead of it.

A virtual environment is installed without bytecode: compiling all of it takes ten times as long as
compiling what verifiers imports. The fork server keeps what it compiles, beside it one process per core left
over compiles from the other end what that import will need, and then the rest, when nothing else has work.
"""

from __future__ import annotations

import gc
import hashlib
import json
import marshal
import os
import re
import struct
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER

from .apart import be_nice
from .warden import die_with_parent

IMPORT = re.compile(r"^(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]*))", re.MULTILINE)
"""An import at the beginning of a line; one in a branch or a function may never happen."""
TIME_AND_LENGTH = b"\0\0\0\0"
"""Flags of bytecode that is held against these two."""
WRITES_ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
NAME = re.compile(r"#[^\n]*|\bas\s+\w+|([\w.]+)")


@contextmanager
def kept_below(folder: str) -> Iterator[list[str]]:
    """Let imports of the block keep their bytecode in this folder, each file whole or not at all.

    Python's own way may leave half a file on a full disk, which no later import would read. The list
    names the files that could not be written.
    """
    before, writes_none = SourceFileLoader.set_data, sys.dont_write_bytecode
    refused: list[str] = []

    def keep(_loader: SourceFileLoader, path: str, data: bytes, *, _mode: int = 0o666) -> None:
        if not str(path).startswith(folder + os.sep):
            return
        try:
            write_whole(str(path), data)
        except OSError:
            refused.append(str(path))

    SourceFileLoader.set_data = keep  # type: ignore[assignment, method-assign]
    sys.dont_write_bytecode = False
    try:
        yield refused
    finally:
        SourceFileLoader.set_data = before  # type: ignore[method-assign]
        sys.dont_write_bytecode = writes_none


def write_whole(path: str, data: bytes) -> None:
    """Write a file that is there as a whole or not at all. Raises `OSError`."""
    aside = f"{path}.{os.getpid()}.{threading.get_ident()}"
    try:
        file = os.open(aside, WRITES_ANEW, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        file = os.open(aside, WRITES_ANEW, 0o666)
    try:
        try:
            written = os.write(file, data)
        finally:
            os.close(file)
        if written < len(data):
            raise OSError(ENOSPC, os.strerror(ENOSPC), path)
        os.replace(aside, path)  # noqa: PTH105
    except OSError:
        with suppress(OSError):
            os.unlink(aside)  # noqa: PTH108
        raise


def main() -> None:
    """Compile what the question on standard input names; exit code 1 where some of it could not be kept."""
    gc.disable()  # what compiling leaves behind has no cycles
    asked = json.loads(sys.stdin.read())
    folder, beside = asked["folder"], asked["beside"]
    part, others = _divided(beside)
    store = asked["store"]
    kept = compile_what_is_imported(folder, asked["modules"], part, beside, store) if beside else True
    kept &= all([os.waitpid(child, 0)[1] == 0 for child in others])  # noqa: C419 (all of them are waited for)
    if not part and asked["all"]:
        if asked["idle"]:
            _give_way()
        kept &= compile_below(folder, store)
    os._exit(0 if kept else 1)


def _divided(parts: int) -> tuple[int, list[int]]:
    """Which part of the work is this process's, and the processes of the others, where it is the first."""
    parent, others = os.getpid(), list[int]()
    for part in range(1, parts):
        child = os.fork()
        if child == 0:
            die_with_parent(parent)
            return part, []
        others.append(child)
    return 0, others


def _give_way() -> None:
    """Let everybody else go first, also those who have just woken up."""
    be_nice(19)
    with suppress(AttributeError, OSError):  # not Linux, or forbidden
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def compile_what_is_imported(folder: str, modules: list[str], part: int, parts: int, store: str = "") -> bool:
    """Compile one part of what importing these modules imports; whether all of it could be kept.

    The last of it comes first, because whoever imports meanwhile begins at the front.
    """
    kept, waiting = True, list(modules)
    found: dict[str, str | None] = {}
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        package, _, _ = name.rpartition(".")
        if package and package not in found:
            waiting += (name, package)  # which is imported first
            continue
        path = found[name] = _source_of(folder, name) if _may_have_modules(found.get(package)) else None
        if path is not None:
            source, status = read(path)
            waiting += _imported_by(name, path, source)
            if zlib.crc32(name.encode()) % parts == part and not _is_compiled(path):
                kept &= _compile(path, source, status, store)
    return kept


def _may_have_modules(path: str | None) -> bool:
    """Whether there can be modules below this one; a folder without a file of its own has no path."""
    return path is None or path.endswith("__init__.py")


def _source_of(folder: str, module: str) -> str | None:
    path = os.path.join(folder, *module.split("."))  # noqa: PTH118
    candidates = (os.path.join(path, "__init__.py"), f"{path}.py")  # noqa: PTH118
    return next(filter(os.path.isfile, candidates), None)


def read(path: str) -> tuple[bytes, os.stat_result]:
    """A file and what is known of it, both of the same moment. Raises `OSError`."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        return os.read(file, status.st_size), status
    finally:
        os.close(file)


def _imported_by(module: str, path: str, content: bytes) -> Iterator[str]:
    """What a file names in its imports: modules, and what may be modules."""
    text = content.decode("utf-8", "replace")
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    for found in IMPORT.finditer(text):
        source, members, modules = found.groups()
        if modules is not None:
            yield from filter(None, NAME.findall(modules))
            continue
        steps = source.lstrip(".")
        above = len(source) - len(steps)
        base = package.split(".")[: 1 - above or None] if above else []
        start = ".".join([*base, *filter(None, [steps])])
        yield start
        yield from (f"{start}.{member}" for member in NAME.findall(members) if member)


def compile_below(folder: str, store: str = "") -> bool:
    """Compile all in a folder, or take what a store has; whether all of it could be kept."""
    kept = True
    for parent, _, names in os.walk(folder):
        for path in (f"{parent}/{name}" for name in names if name.endswith(".py")):
            if not _is_compiled(path):
                with suppress(OSError):
                    kept &= _compile(path, *read(path), store)
    return kept


def _compile(path: str, source: bytes, status: os.stat_result, store: str) -> bool:
    """Compile a file as importing it would, or take what a store has; whether that could be kept.

    Templates and what is for other Pythons cannot be compiled, which is no matter.
    """
    bytecode, kept = bytecode_of(path), place_in(store, source, status)
    with suppress(OSError):
        if kept is not None and link(kept, bytecode):
            return True
    try:
        code = marshal.dumps(compile(source, path, "exec", dont_inherit=True))
    except Exception:
        return True
    try:
        write_whole(bytecode, header_of(status) + code)
    except OSError:
        return False
    with suppress(OSError):
        if kept is not None:
            link(bytecode, kept)
    return True


def place_in(store: str, source: bytes, status: os.stat_result) -> str | None:
    """Where a store has the bytecode of a source; nowhere for a file without another name, which does not come back."""
    if not store or status.st_nlink < 2:
        return None
    said = hashlib.blake2b(source, digest_size=16).hexdigest()
    return f"{store}/{said[:2]}/{said}-{int(status.st_mtime):x}.pyc"


def link(file: str, name: str) -> bool:
    """Give a file another name; whether there is a file of that name now. Raises `OSError` where there is no room."""
    for _ in range(2):
        try:
            os.link(file, name)
        except FileExistsError:
            return True
        except PermissionError:  # somebody else's
            return False
        except FileNotFoundError:
            if not os.path.exists(file):  # noqa: PTH110
                return False
            os.makedirs(os.path.dirname(name), exist_ok=True)  # noqa: PTH103, PTH120
        else:
            return True
    return False


def header_of(source: os.stat_result) -> bytes:
    """What bytecode begins with that is held against its source by time and length (PEP 552)."""
    about = struct.pack("<II", int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    return MAGIC_NUMBER + TIME_AND_LENGTH + about


def is_of(source: str) -> bool:
    """Whether the bytecode of a source is there and its own, by the time and length that Python goes by."""
    with suppress(OSError):
        return read(bytecode_of(source))[0].startswith(header_of(os.stat(source)))  # noqa: PTH116
    return False


def _is_compiled(path: str) -> bool:
    return os.path.exists(bytecode_of(path))  # noqa: PTH110


def bytecode_of(path: str) -> str:
    """Where Python looks for the bytecode of a source."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
