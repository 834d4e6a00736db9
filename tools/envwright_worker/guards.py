"""Detects reads of the clock, randomness, files or variables while a reward is computed.

A profile hook is called for every call. A call is attributed to the environment if the first frame outside the standard
library is a file of the package. Calls of verifiers and other libraries are not: a runtime may create temporary files,
and a trace may have a random id.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import random
import re
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from envwright_worker.failures import Sources

MAXIMUM_ACTS = 50
COPIED = 5
"""The most variables that a line reads singly; beyond it, the line copies all of them, as for a program that it
starts."""
STANDARD_LIBRARY = (sysconfig.get_path("stdlib") + "/", "<frozen ")
_SITE_PACKAGES = tuple(sysconfig.get_path(name) + "/" for name in ("purelib", "platlib"))
_CLOCK = {("time", name) for name in ("time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "asctime")}
_CLOCK_METHODS = {"now", "utcnow", "today"}
_OWN_CHANCE = {("posix", "urandom"), ("posix", "getrandom")}
_ENVIRONMENT = {os._Environ.__getitem__.__code__, os._Environ.__contains__.__code__}
_CHANGED_ENVIRONMENT = {os._Environ.__setitem__.__code__, os._Environ.__delitem__.__code__}
_IMPORTING = ("<frozen importlib", "importlib/", "zipimport", "linecache.py", "pkgutil.py")
EXECUTED = "xq81zv_executed"
"""A name that occurs only in replies and identifies their code."""
_ALWAYS = ("/dev/", "/proc/self/")
_SILENT_VARIABLES = {"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TERM", "PYTHONPATH"}


_NUMPY_CHANCE = re.compile(r"\b(?:np|numpy)\.random\.|from numpy(?:\.random)? import .*|import numpy\.random")


class ActGuard:
    """Records acts during `watching()`."""

    def __init__(self, sources: Sources, roots: tuple[Path, ...]) -> None:
        self._sources = sources
        self._inside = tuple(
            str(Path(root).resolve()) + "/"
            for root in (*roots, Path(tempfile.gettempdir()), Path(sys.prefix), Path(sys.base_prefix))
        )
        self._acts: dict[tuple[str, str, str | None, int | None], dict[str, Any]] = {}
        self._watching = False

    def acts(self) -> list[dict[str, Any]]:
        """The acts in the order in which they were first seen."""
        reads = Counter(_line_of_act(act) for act in self._acts.values() if act["what"] == "environment variable")
        copied = {line for line, count in reads.items() if count > COPIED}
        return [act for act in self._acts.values() if _line_of_act(act) not in copied]

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the block, once: an audit hook cannot be removed."""
        sys.addaudithook(self._audited)
        self._watching = True
        drawn = _shared_by_numpy()
        sys.setprofile(self._profiled)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._watching = False
            if _shared_by_numpy() != drawn:
                self._drew_from_numpy()

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._watching:
            return
        if event == "open":
            self._opened(arguments[0])
        elif event == "subprocess.Popen" or event == "os.system":
            self._seen("program", str(arguments[0]), sys._getframe(1))
        elif event == "exec" and _names(arguments[0], EXECUTED):
            self._seen("execution", "exec or eval", sys._getframe(1))
        elif event == "os.chdir":
            self._seen("file", f"another working folder, {arguments[0]}", sys._getframe(1))

    def _opened(self, path: Any) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        name = os.path.realpath(os.fsdecode(path))
        if name.startswith((*self._inside, *_ALWAYS)):
            return
        self._seen("file", name, sys._getframe(2))

    def _profiled(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            self._called_builtin(frame, argument)
        elif event == "call":
            self._called(frame)

    def _called_builtin(self, frame: FrameType, function: Any) -> None:
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        named = (getattr(function, "__module__", None) or getattr(owner, "__name__", ""), name)
        if named in _CLOCK:
            if not _is_given_a_time(frame, named[1]):
                self._seen("clock", ".".join(named), frame)
        elif name in _CLOCK_METHODS and isinstance(owner, type) and owner.__module__ == "datetime":
            self._seen("clock", f"{owner.__name__}.{name}", frame)
        elif named in _OWN_CHANCE:
            self._seen("randomness", f"os.{name}", frame)
        elif owner is not None and _is_shared_generator(owner):
            self._seen("randomness", f"{type(owner).__name__}.{name}", frame)

    def _called(self, frame: FrameType) -> None:
        code = frame.f_code
        if code in _ENVIRONMENT:
            key = str(frame.f_locals.get("key"))
            if key not in _SILENT_VARIABLES:
                self._seen("environment variable", key, frame.f_back)
        elif code in _CHANGED_ENVIRONMENT:
            self._seen("environment variable", f"{frame.f_locals.get('key')} (set)", frame.f_back)
        elif code.co_filename == random.__file__:
            owner = frame.f_locals.get("self")
            if code.co_name == "__init__" and frame.f_locals.get("x", 0) is None:
                self._seen("randomness", "random.Random() without a seed", frame.f_back)
            elif _is_shared_generator(owner) and code.co_name not in ("seed", "getstate", "setstate"):
                self._seen("randomness", f"random.{code.co_name}", frame.f_back)
        elif code.co_name in ("uuid1", "uuid4", "token_hex", "token_bytes", "token_urlsafe", "choice", "randbelow"):
            module = frame.f_globals.get("__name__")
            if module in ("uuid", "secrets"):
                self._seen("randomness", f"{module}.{code.co_name}", frame.f_back)

    def _drew_from_numpy(self) -> None:
        """Numpy's functions are compiled and call no hook, so a changed state of its generator shows a call."""
        lines = self._sources.lines()
        found = next(((file, number) for file, number, line in lines if _NUMPY_CHANCE.search(line)), None)
        if found is not None:
            place = {"file": found[0], "line": found[1]}
            act = {"what": "randomness", "detail": "numpy.random", "function": "scoring", "place": place, "count": 1}
            self._acts["randomness", "numpy.random", *found] = act

    def _seen(self, what: str, detail: str, start: FrameType | None) -> None:
        frame = start
        while frame is not None:
            file = frame.f_code.co_filename
            if self._sources.relative(file) is not None:
                break
            is_foreign = file.startswith(_SITE_PACKAGES) or not file.startswith(STANDARD_LIBRARY)
            if is_foreign or any(part in file for part in _IMPORTING):
                return
            frame = frame.f_back
        if frame is None:
            return
        place = self._sources.place(frame.f_code.co_filename, frame.f_lineno) or {}
        key = (what, detail, place.get("file"), place.get("line"))
        if key in self._acts:
            self._acts[key]["count"] += 1
        elif len(self._acts) < MAXIMUM_ACTS:
            act = {"what": what, "detail": detail[:200], "function": frame.f_code.co_name}
            self._acts[key] = {**act, "place": place or None, "count": 1}


def _line_of_act(act: Mapping[str, Any]) -> tuple[Any, ...]:
    place = act["place"] or {}
    return act["what"], place.get("file"), place.get("line")


def _is_given_a_time(frame: FrameType, name: str) -> bool:
    """Whether `strftime` and similar functions format a given time; the hook cannot see arguments."""
    formats = name in ("strftime", "asctime", "localtime", "gmtime", "ctime")
    return formats and f"{name}()" not in linecache.getline(frame.f_code.co_filename, frame.f_lineno)


def _is_shared_generator(owner: Any) -> bool:
    """Whether a generator is Python's global one."""
    return isinstance(owner, random.SystemRandom) or owner is getattr(random, "_inst", None)


def _names(code: Any, name: str) -> bool:
    """Whether code, or what it defines, uses a name."""
    if not isinstance(code, CodeType):
        return False
    return name in code.co_names or any(_names(constant, name) for constant in code.co_consts)


def _shared_by_numpy() -> str:
    """The state of numpy's global generator as text; empty if numpy is not loaded."""
    numpy = sys.modules.get("numpy.random")
    return "" if numpy is None else repr(numpy.get_state(legacy=False))
