"""A digest of the tool's own files: what another version of it worked out is not reused."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

CODE = (".py", ".json", ".lock")


@cache
def code_digest(folder: Path) -> str:
    """Digest of a folder's code: with another version of any rule, or of what it calls, all is worked out anew."""
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith(CODE):
                content = Path(parent, name).read_bytes()
                digest.update(f"{os.path.relpath(parent, folder)}/{name}\0{len(content)}\0".encode())
                digest.update(content)
    return digest.hexdigest()
