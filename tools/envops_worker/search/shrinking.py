"""Making a find as short as it can be while it still is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_WORDS = re.compile(r"\s+|<[^<>\s]*>|\w+|[^\w\s]")


def shortest(reply: str, holds: Callable[[str], bool], tries: int = 150) -> str:
    """The reply without whatever it does not need: halves first, then lines, words, characters.

    Delta debugging (Zeller and Hildebrandt, 2002) on three kinds of parts, in order.
    """
    left = [tries]

    def still(text: str) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        return holds(text)

    if reply and still(""):
        return ""
    for cut in (_LINES.findall, _WORDS.findall, list):
        reply = "".join(_fewest(cut(reply), still))
    return reply


def _fewest(parts: Sequence[str], still: Callable[[str], bool]) -> Sequence[str]:
    size = max(1, len(parts) // 2)
    while size >= 1 and len(parts) > 1:
        start = 0
        while start < len(parts):
            without = [*parts[:start], *parts[start + size :]]
            if still("".join(without)):
                parts = without
            else:
                start += size
        size //= 2
    return parts
