"""Names of models: their family, size and variant, and the most similar known model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from difflib import SequenceMatcher

SAME = 0.92
"""The similarity of letters from which a name of the same size is taken for a misspelt one."""
NO_SIZE = 10.0
"""The distance between a model with a size in its name and one without."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)[bB]\b")
_VARIANTS = ("instruct", "thinking", "base", "vl", "coder", "distill")


def most_alike(model: str, known: Iterable[str]) -> str:
    """The known model of the same family that is nearest in size, then in variant; empty if there is none."""
    names = list(known)
    misspelt = [name for name in names if _letters(model, name) >= SAME and _distance(model, name) == 0]
    if misspelt:
        return max(misspelt, key=lambda name: (_letters(model, name), name))
    relatives = [name for name in names if _family(name) and _family(name) == _family(model)]
    return min(
        relatives,
        key=lambda name: (_distance(model, name), len(_variant(model) ^ _variant(name)), -_letters(model, name), name),
        default="",
    )


def _letters(one: str, other: str) -> float:
    return SequenceMatcher(None, one.casefold(), other.casefold()).ratio()


def _family(model: str) -> str:
    """The letters at the beginning of the name: `qwen` of Qwen/Qwen2.5-7B-Instruct."""
    found = re.match(r"[A-Za-z]+", model.rpartition("/")[2])
    return found[0].casefold() if found else ""


def _distance(one: str, other: str) -> float:
    """The distance between two sizes: the logarithm of their ratio."""
    sizes = [float(found[1]) for model in (one, other) if (found := _SIZE.search(model)) and float(found[1]) > 0]
    if len(sizes) == 2:
        return abs(math.log(sizes[0] / sizes[1]))
    return NO_SIZE if sizes else 0.0


def _variant(model: str) -> frozenset[str]:
    words = re.split(r"[-_/.]", model.casefold())
    return frozenset(word for word in _VARIANTS if word in words)
