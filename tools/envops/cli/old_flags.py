"""Flags that became commands of their own: what was typed before goes on working."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_Rewrite = Callable[[str, list[str]], list[str]]


def rewritten(words: Sequence[str]) -> list[str]:
    """The same call with today's commands; unchanged where it has no old flag."""
    if not words:
        return []
    command, rest = words[0], list(words[1:])
    end = rest.index("--") if "--" in rest else len(rest)
    given = {word.partition("=")[0] for word in rest[:end]}
    for (name, flag), rewrite in _OLD.items():
        if name == command and flag in given:
            return [command, *rewrite(flag, rest)]
    return [command, *rest]


def _taken(flag: str, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The values of a flag, and the words without it."""
    values, left, following = [], [], iter(words)
    for word in following:
        if word == flag:
            values.append(next(following, ""))
        elif word.startswith(f"{flag}="):
            values.append(word.removeprefix(f"{flag}="))
        else:
            left.append(word)
    return values, left


def _kept(second: str) -> _Rewrite:
    """The flag stays a flag of the new command."""
    return lambda _flag, words: [second, *words]


def _dropped(second: str) -> _Rewrite:
    """The flag, which had no value, is the new command."""
    return lambda flag, words: [second, *(word for word in words if word != flag)]


def _first(second: str) -> _Rewrite:
    """The values of the flag come first."""

    def rewrite(flag: str, words: list[str]) -> list[str]:
        values, left = _taken(flag, words)
        return [second, *values, *left]

    return rewrite


def _last(second: str) -> _Rewrite:
    """The values of the flag come last, behind `--` where one of them looks like a flag."""

    def rewrite(flag: str, words: list[str]) -> list[str]:
        values, left = _taken(flag, words)
        return [second, *left, *(["--"] if any(value.startswith("-") for value in values) else []), *values]

    return rewrite


_OLD: dict[tuple[str, str], _Rewrite] = {
    ("rewards", "--against"): _kept("diff"),
    ("rewards", "--explain"): _first("explain"),
    ("rewards", "--reply"): _last("reply"),
    ("distribution", "--results"): _last("results"),
    ("distribution", "--hosted"): _dropped("hosted"),
    ("train", "--requirements"): _dropped("requirements"),
    ("train", "--compile-only"): _dropped("compile"),
    ("train", "--probe"): _dropped("probe"),
    ("train", "--config"): _first("file"),
    ("train", "--env"): _first("hub"),
}
"""Command and old flag → how it is written now."""
