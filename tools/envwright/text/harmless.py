"""Data for pages, without characters that are invisible or active."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from envwright.text.visible_text import shortened, visible


def harmless(value: Any, longest: int) -> Any:
    """The data with every text made visible and shortened to its limit."""
    if isinstance(value, str):
        return visible(shortened(value, longest))
    if isinstance(value, dict):
        return {_harmless_key(str(key), longest): harmless(item, longest) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [harmless(item, longest) for item in value]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    return value


@lru_cache(maxsize=1024)
def _harmless_key(key: str, longest: int) -> str:
    return visible(shortened(key, longest))
