"""Columns of a dataset by name, those within records included: `reward_model.ground_truth` is the field of a column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from envops.authoring.dataset.values import is_missing, parsed

Row = Mapping[str, Any]
Columns = Mapping[str, Sequence[Any]]
"""Name → its values, without those that are missing."""


def value_at(row: Row, column: str) -> Any:
    """What a row has in a column, or in the field of a record in one; `None` where it has neither."""
    if column in row or not column:
        return row.get(column)
    outer, _, inner = column.partition(".")
    record = parsed(row.get(outer)) if inner else None
    return value_at(record, inner) if isinstance(record, Mapping) else None


def columns_of(rows: Sequence[Row]) -> Columns:
    """The columns of these rows that hold anything."""
    filled: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values = filled.setdefault(name, [])
            if not is_missing(value):
                values.append(value)
    return {name: values for name, values in filled.items() if values}


def fields_of(columns: Columns) -> Columns:
    """The fields of columns that hold records, under their own names; records may be written as JSON."""
    fields: dict[str, Sequence[Any]] = {}
    for name, values in columns.items():
        if not isinstance(values[0], Mapping) and not str(values[0]).lstrip().startswith("{"):
            continue
        records = [parsed(value) for value in values]
        if all(isinstance(record, Mapping) for record in records):
            inner = columns_of(records)
            found = {**inner, **fields_of(inner)}
            fields |= {f"{name}.{field}": values for field, values in found.items()}
    return fields


def plain(name: str) -> str:
    """`expectedAnswer`, `Expected Answer`, `expected_answer` and `output.expected_answer` are one name."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.rpartition(".")[2].strip())
    return re.sub(r"[\W_]+", "_", spaced).strip("_").lower()


def ending_with(columns: Columns, words: Iterable[str], fits: Any = lambda _: True) -> str:
    """The first column of several words of which one of these is the last; empty where there is none."""
    return next(
        (name for word in words for name in columns if plain(name).endswith(f"_{word}") and fits(columns[name])), ""
    )


def named(columns: Columns, names: Iterable[str], fits: Any = lambda _: True) -> str:
    """The first of some plain names that is a column which fits; empty where there is none."""
    by_name = {plain(name): name for name in reversed(list(columns))}
    return next((by_name[name] for name in names if name in by_name and fits(columns[by_name[name]])), "")
