"""A finding's evidence as labelled text: the reply first, then the reward it got."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envops.text.plain_data import number_text, plain_data

if TYPE_CHECKING:
    from envops.rules.engine import Finding

FIRST = (
    "case",
    "task",
    "policy",
    "prompt",
    "answer",
    "reply",
    "completion",
    "extracted",
    "expected",
    "reward",
    "functions",
)
"""Keys that are shown first, in this order; others follow as the rule gave them."""
ALWAYS_QUOTED = frozenset({"prompt", "reply", "completion", "output", "traceback", "diff"})
COUNTED = frozenset({"count", "of"})
"""Where both are there, the message says `3 of 10` already."""
LONGEST_IN_LINE = 56


@dataclass(frozen=True)
class ShownEvidence:
    """One entry of a finding's evidence. The text is raw: each report escapes it its own way."""

    label: str
    text: str
    quoted: bool
    """Shown as a block of its own, line for line."""


def shown_evidence(finding: Finding) -> tuple[ShownEvidence, ...]:
    """The evidence of a finding in reading order."""
    said = {"more", "reply_length"} | (COUNTED if finding.evidence.keys() >= COUNTED else set())
    keys = [key for key in FIRST if key in finding.evidence]
    keys += [key for key in finding.evidence if key not in FIRST and key not in said]
    shown = [_shown(str(key), finding.evidence[key]) for key in keys]
    more = finding.evidence.get("more")
    if isinstance(more, list | tuple):
        shown += [_also(evidence) for evidence in more]
    return tuple(shown)


def _shown(key: str, value: Any) -> ShownEvidence:
    text = _text(key, value)
    long = isinstance(value, str | list | tuple) and ("\n" in text or len(text) > LONGEST_IN_LINE)
    quoted = key in ALWAYS_QUOTED or long
    if isinstance(value, str) and not value.strip():
        text, quoted = _empty(value), False
    return ShownEvidence(key.replace("_", " "), text, quoted)


def _also(evidence: Any) -> ShownEvidence:
    """Another conversation that the same finding speaks of: one line about it, then the reply."""
    if not isinstance(evidence, Mapping):
        return _shown("also", evidence)
    about = [(key, _text(key, evidence[key])) for key in FIRST if key in evidence and key not in ALWAYS_QUOTED]
    lines = [", ".join(f"{key} {text}" for key, text in about if text)]
    lines += [_text(key, evidence[key]) or _empty("") for key in ("reply", "completion") if key in evidence]
    return ShownEvidence("also", "\n".join(line for line in lines if line), quoted=True)


def _empty(text: str) -> str:
    return f"({len(text)} characters of white space)" if text else "(empty)"


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return number_text(value)
    data = plain_data(value)
    if key == "functions" and isinstance(data, dict):
        return ", ".join(f"{name} {_score(score)}" for name, score in data.items())
    if _is_conversation(data):
        return "\n".join(_message(message) for message in data)
    if isinstance(data, dict) and not any(isinstance(item, dict | list) for item in data.values()):
        return ", ".join(f"{name} {_text('', item)}" for name, item in data.items())
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def _score(score: Any) -> str:
    """One function's score, with its weight where the evidence has it."""
    if isinstance(score, Mapping) and "score" in score:
        weight = score.get("weight")
        times = "" if weight is None or score.get("kind") == "metric" else f" × {_text('weight', weight)}"
        return f"{_text('score', score['score'])}{times}"
    return _text("score", score)


def _is_conversation(data: Any) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(one, dict) and "role" in one for one in data)


def _message(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    said = content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)
    calls = message.get("tool_calls")
    lines = [f"[{message['role']}] {said}".rstrip()]
    if isinstance(calls, Sequence) and calls and not isinstance(calls, str):
        lines += [f"    calls {json.dumps(call, ensure_ascii=False)}" for call in calls]
    return "\n".join(lines)
