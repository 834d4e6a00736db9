"""A key of registry.yaml is declared once: schema for editors, reader and reference page agree on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from envwright.cli.docs import render_registry
from envwright.declarations.document import Document
from envwright.declarations.keys import checked
from envwright.declarations.registry import SCHEMA_FILE, RegistryKeys, registry_schema
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

ROOT = Path(__file__).parents[2]
SCHEMA = registry_schema()
SOURCE = {"id": "sums", "name": "first", "args": {}, "taskset": {}, "harness": {}, "runtime": {}, "max_turns": 3}
RUN = {
    "backend": "prime",
    "model": "Qwen/Qwen3-4B",
    "environments": [{**SOURCE, "ratio": 2.0, "group_size": 4}],
    "max_steps": 10,
    "eval": {},
    "resume": {"step": 3},
    "wandb": {"project": "p", "tags": ["a"]},
    "lora": {},
    "checkpoints": {},
    "sampling": {},
    "gpus": {},
    "budget": {},
    "secrets": ["WANDB_API_KEY"],
    "ignore": {"RUN001": "a reason"},
}
REGISTRY = {
    "version": 1,
    "owner": "acme",
    "defaults": {},
    "environments": {
        "sums": {
            "gates": {"smoke": {}, "distribution": {}},
            "owners": ["@acme/rl"],
            "secrets": ["KEY"],
            "probe": {},
            "ignore": {"RWD001": "why"},
        },
        "wordle": {"hub": "acme/wordle@1.0"},
    },
    "runs": {"first": RUN},
    "rules": {"RWD001": {"severity": "off", "reason": "a reason"}},
}
VALUES = [
    *(None, True, False, 0, 1, 2, -1, 1.0, 5.0, 0.5, 1.5, 10**10, 1e12),
    *("", " ", "a", "A_B", "a b", "a--b", "@acme", "sums\n", "acme/wordle@1.0", "acme/wordle", "v1", "PUBLIC", "trl"),
    "off",
    *([], ["a"], ["@a", "@a"], ["A_B", "B"], [1], [{}], [{"id": "sums"}], {}, {"a": 1}, {"RWD001": ""}, {"step": 1}),
    *({"step": 1, "run": "a"}, {"hub": "acme/wordle@1.0"}, {"project": "a"}, {"gates": {"rewards": {}}}),
]


def pattern(_validator: Any, expected: str, found: Any, _schema: Any) -> Iterator[Any]:
    """JSON Schema's `$` matches at the very end only, Python's before a final line end too."""
    if isinstance(found, str) and not re.search(re.sub(r"\$$", r"\\Z", expected), found):
        yield from extend(Draft202012Validator)({"not": {}}).iter_errors(found)


EDITOR = extend(Draft202012Validator, {"pattern": pattern})(SCHEMA)


def reads(data: Any) -> bool:
    return checked(RegistryKeys, Document("registry.yaml", data, {}))[0] is not None


def places(schema: dict[str, Any], value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key that the schema knows within a document, those that are not written included."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "if" in schema:
        schema = schema["then"] if "hub" in value else schema["else"]["anyOf"][0]
        yield from places(schema, value, path)
    elif "properties" in schema:
        for key, part in schema["properties"].items():
            yield (*path, key)
            if key in value:
                yield from places(part, value[key], (*path, key))
    elif "items" in schema:
        yield (*path, 0)
        yield from places(schema["items"], value[0], (*path, 0))
    elif "additionalProperties" in schema:
        for name in value:
            yield (*path, name)
            yield from places(schema["additionalProperties"], value[name], (*path, name))


PLACES = list(places(SCHEMA, REGISTRY))


def with_value(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    other = "environments" if path[0] == "runs" else "runs"
    data = deepcopy({**REGISTRY, other: {}})
    inside: Any = data
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return data


def test_registry_with_every_kind_of_key_is_read() -> None:
    assert EDITOR.is_valid(REGISTRY)
    assert reads(REGISTRY)
    assert len(PLACES) > 100


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_value_is_read_if_and_only_if_schema_allows_it(path: tuple[Any, ...]) -> None:
    differing = [
        value for value in VALUES if EDITOR.is_valid(with_value(path, value)) != reads(with_value(path, value))
    ]
    assert differing == []


@pytest.mark.parametrize("group", ["environments", "runs"])
@pytest.mark.parametrize("name", ["a", "a-b", "a.b", "A", "a_b", "-a", "1a", "", "a" * 101, "a\n", "ä"])
def test_name_is_read_if_and_only_if_schema_allows_it(group: str, name: str) -> None:
    data = with_value((group, name), None if group == "environments" else RUN)
    assert EDITOR.is_valid(data) == reads(data)


def test_schema_file_for_editors_is_up_to_date() -> None:
    assert json.loads((ROOT / SCHEMA_FILE).read_text()) == SCHEMA


def test_key_without_a_default_is_required_in_the_reference() -> None:
    page = render_registry(SCHEMA)
    assert "| `max_steps` | whole number, at least 1 | Training steps. Required. |" in page
    assert "| `batch_size` | whole number, at least 1 |" in page
    assert "Default: `128`." in page
