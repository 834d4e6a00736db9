"""Harnesses of verifiers v1 other than the worker's own, and what they find where they install themselves.

They are programs in the rollout's runtime, and most bring themselves there at every start: with uv,
which verifiers looks for in `~/.local/bin`, with curl or with npm. What is put there for them is uv,
with one cache of packages for all runs, so what came once is there for later runs without a network.
Where the gates run offline, a proxy refuses the rest and says what it was.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.runtimes import make_runtime

from envops_worker.failures import HarnessUnusable
from envops_worker.refusing_proxy import RefusingProxy

UV = """#!/bin/sh
# Packages that came once are enough: no index is asked for them again.
if [ "$1" = sync ] && UV_OFFLINE=1 {uv} "$@" 2>/dev/null; then exit 0; fi
exec {uv} "$@"
"""
PIP = """#!/bin/sh
# verifiers before 0.4 brings uv up to date by pip, at every start; it is beside this file already.
case "$*" in *uv) exit 0 ;; esac
echo "there is no pip in this runtime" >&2
exit 1
"""
LONGEST_SAID = 1_500


@dataclass(frozen=True)
class Seat:
    """A harness that is to play, and what it may help itself with."""

    id: str
    uv: str
    """The program."""
    cache: str
    """The folder of packages that are kept."""
    allow_network: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    """How the user's uv and network are set up, where the network is allowed."""


class Harnesses:
    """Every harness that was made ready, by its id."""

    def __init__(self) -> None:
        self._configs: dict[str, dict[str, Any]] = {}
        self._proxy = RefusingProxy()

    def config(self, id: str) -> dict[str, Any]:
        """How verifiers is told of it."""
        return self._configs[id]

    @property
    def unmet(self) -> str:
        """What a harness asked the network for in vain, in words; empty where nothing was."""
        if not self._proxy.wanted:
            return ""
        return f"; it wanted {', '.join(self._proxy.wanted[:5])}, and the gates run offline without --allow-network"

    async def make_ready(self, seat: Seat) -> None:
        """Let the harness set itself up once, before any rollout counts on it.

        Raises `HarnessUnusable` with what it needs and what to do.
        """
        _offer(seat)
        variables = {"UV_CACHE_DIR": seat.cache, "UV_NO_PROGRESS": "1", **seat.variables}
        if not seat.allow_network:
            await self._proxy.begin()
            variables |= self._proxy.variables
        config = {"id": seat.id, "env": variables}
        try:
            harness = vf.load_harness(vf.harness_config_type(seat.id).model_validate(config))
            if harness.NEEDS_CONTAINER:
                raise HarnessUnusable(_needs_container(seat.id))
            await _set_up(harness)
        except HarnessUnusable:
            raise
        except Exception as error:
            raise HarnessUnusable(self._why(seat, error)) from error
        self._configs[seat.id] = config

    def _why(self, seat: Seat, error: Exception) -> str:
        said = f"the harness {seat.id} cannot be set up: {str(error).strip()[-LONGEST_SAID:] or type(error).__name__}"
        if not self._proxy.wanted:
            return said
        wanted = ", ".join(self._proxy.wanted[:5])
        return (
            f"the harness {seat.id} wanted {wanted}, and the gates run offline. Run this once with --allow-network: "
            f"packages that it fetches by uv are kept for later runs without a network.\n{said}"
        )


def _offer(seat: Seat) -> None:
    """Put uv where verifiers looks for it first."""
    programs = Path.home() / ".local" / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name, text in (("uv", UV.format(uv=shlex.quote(seat.uv))), ("pip", PIP)):
        path = programs / name
        path.write_text(text)
        path.chmod(0o755)
    Path(seat.cache).mkdir(parents=True, exist_ok=True)


async def _set_up(harness: Any) -> None:
    runtime = make_runtime(vf.SubprocessConfig(), name=f"envops-harness-{os.getpid()}-{time.time_ns()}")
    await runtime.start()
    try:
        await harness.setup(runtime)
    finally:
        await runtime.stop()


def _needs_container(id: str) -> str:
    return (
        f"the harness {id} drives a program that wants a container, and here harnesses are processes of this machine. "
        "Evaluate with verifiers' own command in a container (--env.agent.runtime.type docker), and judge what came "
        "of it with: envops distribution results NAME FILE"
    )
