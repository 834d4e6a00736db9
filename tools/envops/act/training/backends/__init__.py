"""One module per trainer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envops.act.training.backend import Compiled, Request


def compile_run(request: Request) -> Compiled:
    """The run in its trainer's own terms.

    Raises `CompileError` where the declaration has no form there.
    """
    module = import_module(f"{__name__}.{request.spec.backend.replace('-', '_')}")
    compiled: Compiled = module.compile_run(request)
    return compiled
