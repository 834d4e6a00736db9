"""Differences between two texts of a file, as lines for people."""

from __future__ import annotations

from difflib import unified_diff


def difference(name: str, before: bytes, after: bytes) -> str:
    """The unified diff of a file, empty if the texts are equal; bytes that are not text are shown as escapes."""
    old, new = (content.decode("utf-8", "backslashreplace").splitlines() for content in (before, after))
    return "".join(f"{line}\n" for line in unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))
