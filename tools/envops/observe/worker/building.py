"""Wheels made by `build`, each in a fork of one process that has imported `build` and the usual backend.

It runs in the tool's own build environment. By itself, `build` starts a Python for every hook. What a
build prints goes into a file of its own; whatever it does, it does not reach the next one.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from .apart import be_nice
from .bytecode import compile_below
from .warden import adopt_strays, die_with_parent, end_everyone

BACKEND = ("hatchling.build", "hatchling.builders.wheel")
"""What all but a few packages are built by; another backend is imported by its own hooks."""
NOT_BUILT, NOT_INSTALLED = 1, 2
"""Exit codes of what did not work."""


def main() -> None:
    """Answer each question on standard input with the exit code of its build, until there are no more."""
    import build  # noqa: F401

    for module in BACKEND:
        with suppress(ImportError):
            import_module(module)
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    adopt_strays()
    for line in questions:
        answers.write(b"%d\n" % _in_process_of_its_own(json.loads(line), (questions.fileno(), answers.fileno())))
    os._exit(0)


def _in_process_of_its_own(asked: Mapping[str, Any], ours: Sequence[int]) -> int:
    """Make the wheel that the question asks for in a session that ends with it; the exit code."""
    parent = os.getpid()

    def work() -> int:
        die_with_parent(parent)
        os.setsid()
        for descriptor in ours:
            os.close(descriptor)
        printed = os.open(asked["printed"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        be_nice(asked["nice"])
        return _made(asked)

    child, code = _forked(work)
    end_everyone(child)  # what goes on writing would write into what is published by then
    return code


def _forked(work: Callable[[], int]) -> tuple[int, int]:
    """Do work in a fork and wait for its end: the number of its process, and the exit code, which the work returns."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = NOT_BUILT
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return child, os.waitstatus_to_exitcode(status)


def _made(asked: Mapping[str, Any]) -> int:
    """Build the wheel, install it into a folder and compile it there; the exit code."""
    os.chdir(asked["folder"])
    if asked["isolated_with"] is not None:
        command = [sys.executable, "-I", "-m", "build", "--wheel", "--outdir", asked["folder"], asked["source"]]
        if subprocess.run(command, env=asked["isolated_with"], check=False).returncode != 0:
            return NOT_BUILT
    elif problem := _built(asked):
        print(problem)
        return NOT_BUILT
    wheel = next(Path(asked["folder"]).glob("*.whl"), None)
    if wheel is None:
        print("the build ended well but made no wheel")
        return NOT_BUILT
    if subprocess.run([*asked["installs"], wheel], env=asked["installs_with"], check=False).returncode != 0:
        return NOT_INSTALLED
    with suppress(Exception):  # what cannot be compiled here is told when it is imported
        compile_below(asked["site"])
    return 0


def _built(asked: Mapping[str, Any]) -> str:
    """Make the wheel by the tool's own build environment; why that does not work, or nothing."""
    from build import BuildBackendException, BuildException, ProjectBuilder

    try:
        builder = ProjectBuilder(asked["source"], runner=_in_fork)
        missing = builder.check_dependencies("wheel")
        if missing:
            return "Missing dependencies: " + ", ".join(sorted(name for chain in missing for name in chain))
        builder.build("wheel", asked["folder"])
    except (BuildException, BuildBackendException) as error:
        return f"ERROR {error}"
    return ""


def _in_fork(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
    """Run a hook's script as `build` would start it, in a fork of this process, and wait for its end."""
    _, code = _forked(partial(_run_as_program, cmd[1:], cwd or ".", extra_environ or {}))
    if code != 0:
        raise subprocess.CalledProcessError(code, cmd)


def _run_as_program(script: Sequence[str], folder: str, variables: Mapping[str, str]) -> int:
    """Run a script with its arguments; the exit code that Python would end with."""
    os.chdir(folder)
    os.environ.update(variables)
    sys.argv[:] = script
    try:
        runpy.run_path(script[0], run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
