"""What is read out of a reply: by the environment's own parser, and by the tool's own eyes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envops_worker.messages import Message, text_of
from envops_worker.policies.answers import answer_of, find_payload

LONGEST = 2_000


def extracted(adapter: Any, data: Mapping[str, Any], completion: Sequence[Message]) -> list[dict[str, Any]]:
    """Each way to read the reply, and what it found; a parser that raises is one that found an error.

    A v0 environment has a parser, and its rubric perhaps another one. A v1 package has none:
    there only the payload is told that the scripted policies would replace.
    """
    found = []
    for owner, parser in parsers_of(adapter):
        found.append({"by": f"{owner}.parse", **_tried(lambda p=parser: _fields(p.parse(_last(completion))))})
        found.append({"by": f"{owner}.parse_answer", **_tried(lambda p=parser: p.parse_answer(list(completion)))})
    payload = find_payload(_last(completion), answer_of(dict(data)))
    found.append({"by": "envops", "value": payload.answer[:LONGEST]})
    return found


def parsers_of(adapter: Any) -> list[tuple[str, Any]]:
    """The parsers of a v0 environment by name, each once: its own, and those that paying rubrics hold."""
    environment = getattr(adapter, "environment", None)
    if environment is None:
        return []
    from envops_worker.adapters.environments_v0 import leaf_rubrics

    known: list[tuple[str, Any]] = [("parser", getattr(environment, "parser", None))]
    for rubric in leaf_rubrics(environment.rubric):
        parser = getattr(rubric, "parser", None)
        if any(rubric.weights) and all(parser is not other for _, other in known):
            known.append(("rubric.parser", parser))
    return [(name, parser) for name, parser in known if parser is not None]


def _tried(read: Any) -> dict[str, Any]:
    try:
        value = read()
    except Exception as error:
        return {"value": None, "error": f"{type(error).__name__}: {error}"[:LONGEST]}
    return {"value": value[:LONGEST] if isinstance(value, str) else value}


def _fields(parsed: Any) -> Any:
    """What a parser made: text as it is, the fields of an object by name."""
    fields = getattr(parsed, "__dict__", None)
    return dict(fields) if isinstance(fields, dict) else parsed


def _last(completion: Sequence[Message]) -> str:
    return next((text_of(message) for message in reversed(completion) if message["role"] == "assistant"), "")
