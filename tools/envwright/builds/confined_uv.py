"""Runs uv where it may build what it downloads; a build runs untrusted code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envwright.builds.interpreter import own_interpreter
from envwright.builds.sandbox import CERTIFICATES, sandbox_of
from envwright.builds.uv import NO_SETTINGS, uv_environment, uv_program
from envwright.system.scratch_folder import temporary_scratch
from envwright.system.subprocesses import ProgramFailed
from envwright.text.scrubbing import SECRET_NAME

_NEEDS_BUILD = re.compile(r"no usable wheels|uilding source distributions|o usable wheel|--no-build")


def run_uv(
    run: Callable[..., str], command: Sequence[str | Path], reads: Iterable[Path], writes: Iterable[Path]
) -> str:
    """The output of uv: from wheels alone or, where these do not suffice, again in the sandbox with builds.

    `run` is `run_program` with its other arguments. A build reads `reads` and writes `writes`. Raises `ProgramFailed`
    like `run_program`.
    """
    try:
        return run([*command, "--no-build"], environment=uv_environment())
    except ProgramFailed as error:
        if not _NEEDS_BUILD.search(error.failure.message):
            raise
    with _confined(reads, writes) as confined:
        return run(command, **confined)


@contextmanager
def _confined(reads: Iterable[Path], writes: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Arguments of `run_program` for a uv that may build.

    It has a cache and a home of its own, because what a build writes into uv's cache would be installed for others. It
    has the network, and no variable with a password.
    """
    with temporary_scratch("uv") as scratch:
        variables = {name: value for name, value in uv_environment().items() if _may_be_seen_by_builds(name, value)}
        variables |= {"HOME": str(scratch), "TMPDIR": str(scratch)}
        variables |= {"UV_CACHE_DIR": str(scratch / "cache"), "UV_LINK_MODE": "copy"}
        variables |= {NO_SETTINGS: "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        variables.pop("UV_CONFIG_FILE", None)
        read, written = [uv_program(), *reads], [scratch, *writes]
        sandbox = sandbox_of("preferred", own_interpreter().path, reads=read, writes=written, network="open")
        yield {"environment": variables, "sandbox": sandbox}


def _may_be_seen_by_builds(name: str, value: str) -> bool:
    known = name in ("PATH", "LANG", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", *CERTIFICATES)
    return (known or name.startswith("UV_")) and not SECRET_NAME.search(name) and "@" not in value
