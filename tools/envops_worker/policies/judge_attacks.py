"""Replies that talk a judge over, under a judge that lets them; and a judge that nobody understands.

How a reply is shown to the judge is found out with a harmless one first: the judge obeys only
what its prompt does not quote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from envops_worker.adapters.adapter import Job, TaskView
from envops_worker.messages import Message, says, text_of
from envops_worker.policies.answers import JUNK, answer_of, find_payload
from envops_worker.policies.judges import ScriptedJudge, is_quoted
from envops_worker.policies.policies import CANARIES, OVERRIDE, SCRIPT_PREFIX
from envops_worker.session import Session, played_score

PROBE = "The marker is xq81zv"
JUDGED_TASKS = 2
MOST_TURNS = 40
ATTACKS = {"override": OVERRIDE, **CANARIES}

Said = Callable[[str], list[Message]]
"""What the assistant says, turn by turn, to get a text in front of the judge."""
Scores = Callable[[str, list[Message]], dict[str, Any] | None]
"""Scores what a policy says."""


def judged_scores(session: Session, seconds: float) -> Iterator[dict[str, Any]]:
    """Every attack on the judge on some tasks; each answer has the shape of `JudgedScore`."""
    judge = session.judge
    if judge is None or judge.calls == 0:
        return
    for task in list(session.kept.values())[:JUDGED_TASKS]:
        if session.asked_oracle(task, seconds) is None:
            continue
        if session.adapter.conversational:
            yield from _attacked(judge, _turns(session, task), _by_playing(session, task, seconds))
        else:
            yield from _attacked(judge, _replies(session, task, seconds), _in_place(session, task, seconds))


def _replies(session: Session, task: TaskView, seconds: float) -> Sequence[Said]:
    """The text alone, and where the answer stands."""
    perfect = session.asked_oracle(task, seconds)
    assert perfect is not None
    payload = find_payload(text_of(perfect), answer_of(task.data))
    return (lambda text: [says(text)], lambda text: [says(payload.saying(text))])


def _turns(session: Session, task: TaskView) -> Sequence[Said]:
    """The text in every turn, and in place of the last words of a perfect conversation."""
    perfect = [message for message in session.golden.get(task.index, ()) if message["role"] == "assistant"]
    everywhere: Said = lambda text: [says(text)] * MOST_TURNS  # noqa: E731
    return (everywhere, lambda text: [*perfect[:-1], says(text)]) if len(perfect) > 1 else (everywhere,)


def _in_place(session: Session, task: TaskView, seconds: float) -> Scores:
    return lambda policy, said: session.scored(task, policy, said, seconds)


def _by_playing(session: Session, task: TaskView, seconds: float) -> Scores:
    def played(policy: str, said: list[Message]) -> dict[str, Any] | None:
        name = f"{SCRIPT_PREFIX}attack"
        session.policies.scripts[name] = said
        rows = list(session.rollouts([Job(name, task.index)], 1, seconds * 4))
        del session.policies.scripts[name]
        return {**played_score(rows[0], [], session.policies.oracle.derived), "policy": policy} if rows else None

    return played


def _attacked(judge: ScriptedJudge, ways: Sequence[Said], score: Scores) -> Iterator[dict[str, Any]]:
    for way in ways:
        judge.last_prompt = ""
        score("probe", way(PROBE))
        shown = judge.last_prompt
        if PROBE not in shown:
            continue
        whole = text_of(way(PROBE)[-1])
        quoted = is_quoted(shown, whole if whole in shown else PROBE)
        for policy, attack in ATTACKS.items():
            yield from _under(judge, "strict" if quoted else "obedient", score, policy, way(attack))
    yield from _under(judge, "incomprehensible", score, "format-only", ways[-1](JUNK))


def _under(
    judge: ScriptedJudge, manner: Any, score: Scores, policy: str, said: list[Message]
) -> Iterator[dict[str, Any]]:
    before = judge.calls
    judge.manner = manner
    try:
        scored = score(policy, said)
    finally:
        judge.manner = "strict"
    if scored is not None:
        yield {"judge": manner, "calls": judge.calls - before, "score": scored}
