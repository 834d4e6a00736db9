"""Facts as a file: a reader sees all of them or none, and what is damaged is not taken for facts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from envops.observe.facts import Facts, adapter


def write_facts(facts: Facts, path: Path) -> None:
    """Write facts so that a reader sees all of them or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(facts), separators=(",", ":"), default=str)
    aside = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        aside.write_text(text, "utf-8")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def read_facts(path: Path) -> Facts:
    """Facts as written by `write_facts`.

    Raises `ValueError` when the file is damaged or of another shape, `OSError` when it
    cannot be read.
    """
    text = path.read_bytes()  # first: where there is no file, no checker needs to be made
    facts = adapter(Facts).validate_json(text, strict=False)
    assert isinstance(facts, Facts)
    return facts
