"""One module per trainer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envops.training.trainers.trainer import Compiled, Request


def compile_run(request: Request) -> Compiled:
    """The run in its trainer's own terms.

    Raises `CompileError` where the declaration has no form there.
    """
    from envops.training.trainers.trainer import CompileError

    module = import_module(f"{__name__}.{request.spec.backend.replace('-', '_')}")
    try:
        compiled: Compiled = module.compile_run(request)
    except ValueError as error:  # a value that TOML or a command line cannot hold
        raise CompileError(str(error)) from None
    return compiled
