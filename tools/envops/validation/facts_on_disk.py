"""Facts as a file: a reader sees all of them or none, and what is damaged is not taken for facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

from envops.facts.observed import Facts, adapter
from envops.files.atomic_write import write_whole


def write_facts(facts: Facts, path: Path) -> None:
    """Write facts so that a reader sees all of them or none."""
    write_whole(path, as_json(facts))


def read_facts(path: Path) -> Facts:
    """Facts as written by `write_facts`.

    Raises `ValueError` when the file is damaged or of another shape, `OSError` when it
    cannot be read.
    """
    text = path.read_bytes()  # first: where there is no file, no checker needs to be made
    facts: Facts = adapter(Facts).validate_json(text, strict=False)
    return facts


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
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return str(value)
