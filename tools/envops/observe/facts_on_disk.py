"""Facts as a file: a reader sees all of them or none, and what is damaged is not taken for facts.

Of a thousand conversations most have something in common: the policy that spoke, the reply, what each
function said. The two long lists of conversations are therefore kept as tables: per column every
value once, and for every row the number of its value. What is read back shares values as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, make_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints
from uuid import uuid4

from envops.observe.facts import Facts, Rollout, Score, adapter

_TABLES: Mapping[str, type] = {"scores": Score, "rollouts": Rollout}
"""Fields of `Facts` that are kept as tables, and of what."""


def write_facts(facts: Facts, path: Path) -> None:
    """Write facts so that a reader sees all of them or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = {name: as_json(getattr(facts, name)) for name in _names(Facts) if name not in _TABLES}
    parts |= {name: _table(kind, getattr(facts, name)) for name, kind in _TABLES.items()}
    text = _mapping(parts)
    aside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        aside.write_bytes(text)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def read_facts(path: Path) -> Facts:
    """Facts as written by `write_facts`.

    Raises `ValueError` when the file is damaged or of another shape, `OSError` when it
    cannot be read.
    """
    text = path.read_bytes()  # first: where there is no file, no checker needs to be made
    filed = adapter(_filed()).validate_json(text, strict=False)
    read = {name: getattr(filed, name) for name in _names(Facts)}
    read |= {name: _rows(kind, read[name]) for name, kind in _TABLES.items()}
    return Facts(**read)


def as_json(value: object) -> bytes:
    """Facts, or a part of them, as JSON: what dataclasses consist of, and nothing that is worked out from it."""
    try:
        return _writer()(value, inf_nan_mode="constants", fallback=str)
    except ValueError:  # half of a pair of surrogates, which UTF-8 has no bytes for
        return json.dumps(value, separators=(",", ":"), default=_plain).encode()


@cache
def _writer() -> Callable[..., bytes]:
    from pydantic_core import to_json  # importing it takes a tenth of a second, and many runs write no facts

    return to_json


def _plain(value: object) -> object:
    return _fields_of(value) if is_dataclass(value) else str(value)


def _fields_of(value: Any) -> dict[str, Any]:
    """Without what was worked out from them and is kept beside them."""
    return {name: getattr(value, name) for name in _names(value.__class__)}


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _table(kind: type, rows: Sequence[Any]) -> bytes:
    """Column → its values, each once, and for every row the number of its value."""
    return _mapping({name: _column([getattr(row, name) for row in rows]) for name in _names(kind)})


def _column(cells: Sequence[Any]) -> bytes:
    known: dict[bytes, int] = {}
    numbers: dict[int, int] = {}
    for cell in cells:
        if id(cell) not in numbers:
            numbers[id(cell)] = known.setdefault(as_json(cell), len(known))
    return b"[[%b],%b]" % (b",".join(known), as_json([numbers[id(cell)] for cell in cells]))


def _mapping(parts: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (as_json(name), part) for name, part in parts.items())


@cache
def _filed() -> type:
    """`Facts` as they are filed."""
    tables = [(name, _table_of(kind)) for name, kind in _TABLES.items()]
    return make_dataclass("Filed", tables, bases=(Facts,), frozen=True, kw_only=True)


def _table_of(kind: type) -> type:
    """What a table of such rows looks like: of each column the values, and for every row the number of its own."""
    columns = [
        (name, tuple[tuple[hint, ...], tuple[int, ...]])  # type: ignore[valid-type]
        for name, hint in get_type_hints(kind).items()
    ]
    return make_dataclass(f"{kind.__name__}Table", columns)


def _rows(kind: type, table: object) -> tuple[Any, ...]:
    """The rows of a table. Raises `ValueError` where columns differ in length or a value is missing."""
    names = _names(kind)
    columns = [_cells(*getattr(table, name)) for name in names]
    return tuple(_row(kind, names, cells) for cells in zip(*columns, strict=True))


def _cells(values: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
    try:
        if min(numbers, default=0) >= 0:
            return list(map(values.__getitem__, numbers))
    except IndexError:
        pass
    raise ValueError("a value is missing")


def _row(kind: type, names: Sequence[str], cells: Sequence[Any]) -> Any:
    """What the constructor makes, twice as fast: that of a frozen class sets one field after the other."""
    row: Any = object.__new__(kind)
    vars(row).update(zip(names, cells, strict=True))
    return row
