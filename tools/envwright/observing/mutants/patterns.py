"""Small changes of regular expressions: dropped anchors, changed counts, wider sets."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
      \\[AZbBz]                        # anchors that are written with a backslash
    | \\.                              # any other escape
    | \[\^?\]?(?:\\.|[^\]\\])*\]       # a set
    | \(\?(?:[:=!>]|<[=!]|P<\w+>|[aiLmsux-]+[:)])   # the beginning of a group
    | \{\d*,?\d*\}[?+]?                # a counted repetition
    | [*+?][?+]?                       # a repetition
    | .                                # anything else
    """,
    re.VERBOSE | re.DOTALL,
)
_ANCHORS = frozenset({"^", "$", r"\A", r"\Z", r"\b", r"\B", r"\z"})
_OPPOSITES = {r"\d": r"\D", r"\D": r"\d", r"\w": r"\W", r"\W": r"\w", r"\s": r"\S", r"\S": r"\s"}
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}([?+]?)")


def pattern_mutants(pattern: str) -> Iterator[str]:
    """Every pattern that differs from this one in one token and still compiles."""
    tokens = _TOKEN.findall(pattern)
    seen = {pattern}
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        for changed in _changes(token, before):
            text = "".join([*tokens[:index], changed, *tokens[index + 1 :]])
            if text not in seen and _compiles(text):
                seen.add(text)
                yield text


def _changes(token: str, before: str | None) -> Iterator[str]:
    if token in _ANCHORS:
        yield ""
    elif token in _OPPOSITES:
        yield _OPPOSITES[token]
    elif token == r"\.":
        yield "."
    elif before is not None and token[0] in "*+?{" and before not in ("(", "|"):
        yield from _repetitions(token)
    elif token.startswith("[^"):
        yield f"[{token[2:]}"
    elif token.startswith("["):
        yield f"[^{token[1:]}"


def _repetitions(token: str) -> Iterator[str]:
    """A count moved by one, a `+` that may be missing, an option that must not be there."""
    if count := _COUNT.fullmatch(token):
        low, comma, high, kind = count.groups()
        if not comma:
            yield f"{{{int(low or 0) + 1}}}{kind}"
            return
        if low and int(low):
            yield f"{{{int(low) - 1},{high}}}{kind}"
        if high:
            yield f"{{{low},{int(high) + 1}}}{kind}"
            if int(high) > int(low or 0):
                yield f"{{{low},{int(high) - 1}}}{kind}"
        return
    if token[0] == "+":
        yield f"*{token[1:]}"
    elif token[0] == "*":
        yield f"+{token[1:]}"
    else:
        yield ""
    if len(token) == 2 and token[1] == "?":
        yield token[0]


def _compiles(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
