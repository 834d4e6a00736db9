"""Moves files that verifiers v1 puts into /tmp by name into TMPDIR, because the sandbox refuses /tmp."""

from __future__ import annotations

import sys
import tempfile
from types import FunctionType

NAMED = {
    "verifiers.v1.mcp.launch": ("serve_in_runtime", "/tmp/vf-port-"),
    "verifiers.v1.serve.pool": ("EnvServerPool.__init__", "/tmp"),
}
"""Module → the function that names a path, and the constant with it. There is no setting for either."""


def use_temporary_folder() -> None:
    """Change the constants of modules that have been imported; a version without them is left as it is."""
    for module, (place, constant) in NAMED.items():
        function: object = sys.modules.get(module)
        for name in place.split("."):
            function = getattr(function, name, None)
        if isinstance(function, FunctionType):
            moved = tempfile.gettempdir() + constant.removeprefix("/tmp")
            constants = (moved if one == constant else one for one in function.__code__.co_consts)
            function.__code__ = function.__code__.replace(co_consts=tuple(constants))
