"""Embedding of data and code in a page: neither can end its element, and only envwright' code runs."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from markupsafe import Markup

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def embedded(data: Any) -> Markup:
    """JSON for a script element, without characters that HTML interprets."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character, escape in _ESCAPES.items():  # ten times faster than `translate`
        text = text.replace(character, escape)
    return Markup(text)  # the characters that could end the element were replaced above


def code(text: str) -> Markup:
    """A script or style of envwright. Raises `ValueError` if it contains the end of its element."""
    if "</script" in text.lower() or "</style" in text.lower() or "<!--" in text:
        raise ValueError("a script or style that ends its own element cannot be inlined")
    return Markup(text)  # from this package's own files


def policy(*scripts: str, files_beside: bool = False) -> str:
    """The content security policy under which only these scripts run and nothing is fetched.

    With `files_beside` these scripts may load others, the files of transcripts; markup still may not.
    """
    sources = " ".join([f"'sha256-{_digest(script)}'" for script in scripts] + ["'strict-dynamic'"] * files_beside)
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
