"""What a finding's reply is taken to answer, beside what would be right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envops_worker.policies.answers import answer_of, find_payload

if TYPE_CHECKING:
    from envops.facts.observed import Facts, Task
    from envops.rules.engine import Finding

LONGEST = 500


def with_extracted(finding: Finding, facts: Facts) -> Finding:
    """The finding with `answer`, the task's own, and `extracted`, what the marks of the reply frame.

    Only where its evidence is one whole reply: of a conversation, or of a reply that was shortened, nobody can say.
    The marks are those by which the scripted policies find answers; what the environment's own parser reads is told
    by `envops rewards reply`.
    """
    evidence = finding.evidence
    reply, index = evidence.get("reply"), evidence.get("task")
    if facts.description is None or facts.description.conversational or "reply_length" in evidence:
        return finding
    if not isinstance(reply, str) or not reply.strip() or not isinstance(index, int):
        return finding
    task = next((one for one in facts.tasks if one.index == index), None)
    if task is None:
        return finding
    gold = _gold(task)
    found = find_payload(reply, gold).answer
    added = {} if gold is None or "answer" in evidence else {"answer": gold[:LONGEST]}
    return replace(finding, evidence={**evidence, **added, "extracted": found[:LONGEST]})


def _gold(task: Task) -> str | None:
    return answer_of(dict(task.data)) if task.answer is None else str(task.answer)
