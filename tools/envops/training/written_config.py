"""Native configurations as text: TOML and command lines, the same bytes for the same values.

TOML is what both tomllib and the `toml` 0.10 of the prime CLI read alike: full section
headers, dotted keys inside an entry of an array, no array of mixed kinds.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from typing import TYPE_CHECKING, Any

from envops.training.trainers.native_config import NativeConfig, Path, leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

BARE = re.compile(r"[A-Za-z0-9_-]+")
_COMMENT_COLUMN = 56


def toml_text(config: NativeConfig, heading: Sequence[str] = ()) -> str:
    """The configuration as TOML, every value with its origin behind it.

    Raises `ValueError` for a value that TOML or the prime CLI's reader cannot hold.
    """
    lines = [f"# {_comment(line)}".rstrip() for line in heading]
    lines += [f"# left out: {_comment(line)}" for line in config.left_out]
    body = list(_table(config, config.values, ()))
    return "\n".join([*lines, *([""] if lines and body and body[0] else []), *body]).rstrip() + "\n"


def _table(config: NativeConfig, table: Mapping[str, Any], path: Path) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not _is_section(value)}
    sections = {key: value for key, value in table.items() if _is_section(value)}
    if path and (plain or not sections):
        yield from ("", f"[{_dotted(path)}]")
    for key, value in plain.items():
        yield _line(_key(key), value, config.origin((*path, key)))
    for key, value in sections.items():
        if isinstance(value, list):
            for index, entry in enumerate(value):
                yield from ("", f"[[{_dotted((*path, key))}]]")
                for steps, inner in leaves(entry):
                    yield _line(_dotted(steps), inner, config.origin((*path, key, index, *steps)))
        else:
            yield from _table(config, value, (*path, key))


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and all(type(v) is dict for v in value))


def _line(key: str, value: Any, origin: str) -> str:
    text = f"{key} = {_value(value)}"
    return f"{text:<{_COMMENT_COLUMN}} # {_comment(origin)}" if origin else text


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(_key(str(step)) for step in path if not isinstance(step, int))


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no finite number")
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return _array(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(str(key))} = {_value(inner)}" for key, inner in value.items()) + "}"
    raise ValueError(f"{value!r} has no form in TOML: leave the key out instead")


def _array(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        values, kinds = [float(value) for value in values], {float}
    if len(kinds) > 1:
        raise ValueError(f"{list(values)!r} mixes kinds of values, which the prime CLI's TOML reader refuses")
    return "[" + ", ".join(_value(value) for value in values) + "]"


def _text(value: str) -> str:
    # JSON's escapes are TOML's, but for those of surrogates, which ensure_ascii would make.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def arguments_of(config: NativeConfig, value: Callable[[Any], str], new: Sequence[str] = ()) -> dict[str, str]:
    """`key=value` for every value, by dotted path, with its origin; keys below `new` get Hydra's `+`."""
    arguments: dict[str, str] = {}
    for steps, inner in leaves(config.values):
        path = ".".join(steps)
        plus = "+" if any(path == each or path.startswith(f"{each}.") for each in new) else ""
        arguments[f"{plus}{path}={value(inner)}"] = config.origin(tuple(steps))
    return arguments


def hydra_value(value: Any) -> str:
    """A value as Hydra's override grammar and OmegaConf's dot lists both read it."""
    if value is None:
        return "null"
    if isinstance(value, bool | int | float):
        return _value(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(hydra_value(inner) for inner in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{hydra_value(inner)}" for key, inner in value.items()) + "}"
    text = str(value)
    return text if re.fullmatch(r"[A-Za-z_/][A-Za-z0-9_./@-]*", text) else "'" + _escaped(text) + "'"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def script_text(program: str, arguments: Mapping[str, str], heading: Sequence[str], before: Sequence[str] = ()) -> str:
    """A launch script: what comes before, the program (shell text), its arguments with their origins, and `"$@"`."""
    lines = ["#!/usr/bin/env bash", *(f"# {line}".rstrip() for line in heading), "set -euo pipefail", *before, ""]
    if arguments:
        lines.append("arguments=(")
        for argument, origin in arguments.items():
            quoted = f"  {shlex.quote(argument)}"
            lines.append(f"{quoted:<{_COMMENT_COLUMN}} # {_comment(origin)}" if origin else quoted)
        lines += [")", ""]
    given = ' "${arguments[@]}"' if arguments else ""
    lines.append(f'exec {program}{given} "$@"')
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
