"""JSON Schema errors of registry.yaml, said as problems."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envops.repository.document import Document, Steps, place
from envops.repository.problem import Problem, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_NAMES = {"object": "a mapping", "array": "a list", "string": "text", "boolean": "true or false", "null": "nothing"}
_NUMBERS = {"integer": "a whole number", "number": "a number"}
_NOTHING = object()
"""Stands for a value that is not there; `None` is one that a document can hold."""
_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minItems": "at least {} entries",
    "maxLength": "at most {} characters",
}


def schema_problems(document: Document) -> list[Problem]:
    """Every way in which the document misses the registry's schema."""
    problems: list[Problem] = []
    for error in _validator().iter_errors(document.data):
        problems.extend(_problems_of(error, document))
    return problems


def registry_schema() -> dict[str, Any]:
    """The schema of registry.yaml itself."""
    schema: dict[str, Any] = json.loads(Path(__file__).with_name("registry.schema.json").read_bytes())
    return schema


@cache
def _validator() -> Validator:
    # Imported here: it takes longer than everything else that a command does before it starts.
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    def pattern(_validator: Any, expected: str, found: Any, _schema: Any) -> Iterator[ValidationError]:
        # Python's `$` also matches before a final line end, JSON Schema's does not.
        exact = re.sub(r"\$$", r"\\Z", expected)
        if isinstance(found, str) and not re.search(exact, found):
            yield ValidationError("pattern")

    schema = registry_schema()
    checked: Validator = extend(Draft202012Validator, {"pattern": pattern})(schema)  # type: ignore[no-untyped-call]
    return checked


def _problems_of(error: ValidationError, document: Document) -> Iterator[Problem]:
    steps: Steps = tuple(error.absolute_path)
    kind = str(error.validator)
    schema: Any = error.schema
    limit: Any = error.validator_value
    found: Any = error.instance
    if kind == "additionalProperties":
        yield from _unknown_keys(document, steps, found, list(schema["properties"]))
    elif kind == "required":
        for key in (key for key in schema["required"] if error.message.startswith(repr(key))):
            what = schema.get("properties", {}).get(key, {}).get("description", "")
            yield _problem(document, steps, f"lacks the key {key}", fix=f"add {key}: {what}".rstrip(": "))
    elif "propertyNames" in error.absolute_schema_path:
        usable = re.sub(r"[-_.\s]+", "-", found).strip("-").lower()
        near = usable if usable != found and re.search(str(limit), usable) else ""
        allowed = _wanted(schema, kind, limit)
        yield _problem(document, (*steps, found), "is not a usable name", found, allowed, near)
    elif kind in ("enum", "const"):
        choices = limit if kind == "enum" else [limit]
        near = nearest(str(found), map(str, choices)) or nearest(str(found).upper(), map(str, choices))
        yield _problem(
            document, steps, "is not an allowed value", found, allowed=", ".join(map(str, choices)), nearest=near
        )
    elif kind == "uniqueItems":
        yield _problem(document, steps, "holds an entry twice", found, fix="keep one of them")
    else:
        yield _problem(document, steps, "is not an allowed value", found, allowed=_wanted(schema, kind, limit))


def _unknown_keys(document: Document, steps: Steps, found: Iterable[str], allowed: list[str]) -> Iterator[Problem]:
    for key in found:
        if key not in allowed:
            message = "is not a known key" if "hub" not in allowed else "does not go together with hub"
            yield _problem(document, (*steps, key), message, key, ", ".join(allowed), nearest(key, allowed))


def _wanted(schema: Any, kind: str, limit: Any) -> str:
    if kind == "type":
        return " or ".join({**_NAMES, **_NUMBERS}[name] for name in ([limit] if isinstance(limit, str) else limit))
    if kind == "pattern":
        return str(schema.get("description", f"text like {limit}"))
    return _LIMITS.get(kind, f"{kind} {{}}").format(limit)


def _problem(
    document: Document,
    steps: Steps,
    message: str,
    found: Any = _NOTHING,
    allowed: str = "",
    nearest: str = "",
    fix: str = "",
) -> Problem:
    shown = "" if found is _NOTHING else _shown(found)
    return Problem(document.file, document.line(steps), message, place(steps), shown, allowed, nearest, fix)


def _shown(found: Any) -> str:
    text = json.dumps(found, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else text[:117] + "..."
