"""Old flags that have become commands, and still work."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def rewritten(words: Sequence[str]) -> list[str]:
    """The call with the current commands; unchanged without an old flag."""
    if not words:
        return []
    command, rest = words[0], list(words[1:])
    end = rest.index("--") if "--" in rest else len(rest)
    given = {word.partition("=")[0] for word in rest[:end]}
    if rest and rest[0] in {second for (name, _), (second, _) in _OLD.items() if name == command}:
        return [command, *rest]
    for (name, flag), (second, arguments) in _OLD.items():
        if name == command and flag in given:
            return [command, second, *arguments(flag, rest)]
    return [command, *rest]


def _kept(_flag: str, words: list[str]) -> list[str]:
    """The new command keeps the flag."""
    return words


def _dropped(flag: str, words: list[str]) -> list[str]:
    """The new command replaces the flag."""
    return [word for word in words if word != flag]


def _behind(flag: str, words: list[str]) -> list[str]:
    """The other arguments belong to another command and follow `--`."""
    return ["--", *_dropped(flag, words)]


def _first(flag: str, words: list[str]) -> list[str]:
    """The values of the flag come first."""
    values, others = _values_and_others(flag, words)
    return [*values, *others]


def _last(flag: str, words: list[str]) -> list[str]:
    """The values of the flag come last, after `--` if one of them looks like a flag."""
    values, others = _values_and_others(flag, words)
    return [*others, *(["--"] if any(value.startswith("-") for value in values) else []), *values]


def _values_and_others(flag: str, words: list[str]) -> tuple[list[str], list[str]]:
    values, others, following = [], [], iter(words)
    for word in following:
        if word == flag:
            values.append(next(following, ""))
        elif word.startswith(f"{flag}="):
            values.append(word.removeprefix(f"{flag}="))
        else:
            others.append(word)
    return values, others


_OLD: dict[tuple[str, str], tuple[str, Callable[[str, list[str]], list[str]]]] = {
    ("rewards", "--against"): ("diff", _kept),
    ("rewards", "--explain"): ("explain", _first),
    ("rewards", "--reply"): ("reply", _last),
    ("distribution", "--results"): ("results", _last),
    ("distribution", "--hosted"): ("hosted", _dropped),
    ("train", "--requirements"): ("requirements", _behind),
    ("train", "--compile-only"): ("compile", _dropped),
    ("train", "--probe"): ("probe", _dropped),
    ("train", "--config"): ("file", _first),
    ("train", "--env"): ("hub", _first),
}
"""Command and old flag → the new word after the command, and the words after that."""
