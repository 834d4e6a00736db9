"""Evidence: the very reply, who said it on which task, and what it earned.

A rule that hits many tasks makes one finding of them with `merged`: the first hit is the
headline, its evidence stays flat, and the next ones stand under `more`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envops_worker.messages import text_of

from envops.facts.observed import Case, Failure, FunctionScore, Message, Rollout, Score

if TYPE_CHECKING:
    from envops.rules.engine import Found

REPLY_LIMIT = 500
SHOWN = 3


def merged(hits: Iterable[Found], of: int, noun: str = "conversations") -> Iterable[Found]:
    """One finding for many hits, or none; `of` is how many were looked at."""
    found = list(hits)
    if not found:
        return
    count = len(found)
    evidence = {**found[0].evidence, "count": count, "of": of}
    if count > 1:
        evidence["more"] = [dict(hit.evidence) for hit in found[1:SHOWN]]
    message = f"{found[0].message} ({count} of {of} {noun})" if of > 1 else found[0].message
    yield replace(found[0], message=message, evidence=evidence)


def of_conversation(conversation: Score | Rollout) -> dict[str, Any]:
    """Who said what on which task, and what it earned."""
    reply = reply_text(conversation.completion)
    evidence: dict[str, Any] = {"task": conversation.task, "policy": conversation.policy, "reply": shortened(reply)}
    if len(reply) > REPLY_LIMIT:
        evidence["reply_length"] = len(reply)
    evidence["reward"] = conversation.reward
    evidence["functions"] = of_functions(conversation.functions)
    if isinstance(conversation, Rollout):
        evidence["rollout"] = conversation.rollout
        if conversation.stop is not None:
            evidence["stop"] = conversation.stop
    elif conversation.derived:
        evidence["derived"] = True
    return evidence


def of_case(case: Case) -> dict[str, Any]:
    """A case of tests/cases.yaml, and the conversation if it got as far."""
    conversation = of_conversation(case.score) if case.score is not None else {}
    return {"case": case.name, **conversation, "expected": dict(case.expect)}


def of_functions(functions: Mapping[str, FunctionScore]) -> dict[str, Any]:
    return {name: {"score": said.score, "weight": said.weight, "kind": said.kind} for name, said in functions.items()}


def of_failure(failure: Failure) -> dict[str, Any]:
    """What broke, with the traceback where there is one."""
    evidence = {"kind": failure.kind, "error": described(failure)}
    if failure.traceback:
        evidence["traceback"] = failure.traceback
    return evidence


def described(failure: Failure) -> str:
    """A failure in one line."""
    first_line = (failure.message.strip().splitlines() or [""])[0]
    return f"{failure.type}: {shortened(first_line, 200)}" if first_line else failure.type


def shortened(text: str, limit: int = REPLY_LIMIT) -> str:
    """The text, or its beginning and how long it is."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def reply_text(completion: Sequence[Message]) -> str:
    """What was said: the text of a single reply, or a longer conversation line by line."""
    if len(completion) == 1 and not completion[0].get("tool_calls"):
        return text_of(completion[0])
    return "\n".join(line for message in completion for line in _lines(message))


def _lines(message: Message) -> list[str]:
    lines = [f"[{message.get('role', '?')}] {text_of(message)}".rstrip()]
    calls = message.get("tool_calls") or ()
    for call in calls if isinstance(calls, (list, tuple)) else ():
        function = call.get("function", call) if isinstance(call, Mapping) else {}
        arguments = function.get("arguments", "") if isinstance(function, Mapping) else ""
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        lines.append(f"    calls {function.get('name', '?')}({written})")
    return lines
