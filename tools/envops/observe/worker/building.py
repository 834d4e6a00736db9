"""A wheel made by `build`, each hook of its backend in a fork of one process that has imported both.

It runs in the tool's own build environment. By itself, `build` starts a Python for every hook.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

BACKEND = ("hatchling.build", "hatchling.builders.wheel")
"""What all but a few packages are built by; another backend is imported by its own hooks."""


def main() -> None:
    """Build what the question on standard input names; exit code 1 where that does not work, with the reason."""
    from build import BuildBackendException, BuildException, ProjectBuilder

    asked = json.loads(sys.stdin.read())
    for module in BACKEND:
        with suppress(ImportError):
            import_module(module)
    try:
        builder = ProjectBuilder(asked["source"], runner=_in_fork)
        missing = builder.check_dependencies("wheel")
        if missing:
            sys.exit("Missing dependencies: " + ", ".join(sorted(name for chain in missing for name in chain)))
        builder.build("wheel", asked["folder"])
    except (BuildException, BuildBackendException) as error:
        sys.exit(f"ERROR {error}")


def _in_fork(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
    """Run a hook's script as `build` would start it, in a fork of this process, and wait for its end."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _become(cmd[1:], cwd, extra_environ or {})
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        raise subprocess.CalledProcessError(code, cmd)


def _become(script: Sequence[str], folder: str | None, variables: Mapping[str, str]) -> NoReturn:
    code = 1
    try:
        os.chdir(folder or ".")
        os.environ.update(variables)
        sys.argv[:] = script
        runpy.run_path(script[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
