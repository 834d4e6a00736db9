"""Gold on every kept task and each policy on as many as it speaks on; the first replies of each are scored twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envops_worker.adapters.adapter import Job, TaskView
from envops_worker.adapters.groups import score_together
from envops_worker.channel import Request
from envops_worker.messages import Message, says, text_of
from envops_worker.policies.judges import last_words
from envops_worker.policies.policies import MIXED
from envops_worker.policies.wrong_replies import FORMS
from envops_worker.session import HUNG_ENOUGH, IMPATIENT_SECONDS, Session, played_score

PATIENCE = 6
"""From so many replies on that hung, others are given less time."""


def answer(session: Session, request: Request) -> None:
    """Gold on every kept task, and each policy on as many as it speaks on."""
    if session.adapter.conversational:
        _play_policies(session, request)
        return
    seconds, sampled = request["seconds"], request.get("sampled", {})
    if session.adapter.grouped:  # gold is tried on every task among wrong replies, as in training
        sampled = _rarer(sampled)
    for position, task in enumerate(list(session.kept.values())):
        if session.hung.total() >= PATIENCE:
            seconds = min(seconds, IMPATIENT_SECONDS)
        gold_is_silent = session.asked_oracle(task, seconds) is None
        wanted = [
            policy
            for policy in request["policies"]
            # An empty reply names a task of which it would not be known otherwise that gold is silent there.
            if position < sampled.get(policy, position + 1) or (policy == "nop" and gold_is_silent)
        ]
        chosen = [policy for policy in wanted if session.hung[policy] < HUNG_ENOUGH]
        if session.adapter.grouped:
            replies = [(policy, each) for policy in chosen for each in completions_of(session, policy, task, seconds)]
            score_together(session, task, replies, seconds)
            continue
        for policy in chosen:
            for completion in completions_of(session, policy, task, seconds):
                session.score(task, policy, completion, seconds)


def _rarer(sampled: Mapping[str, int]) -> dict[str, int]:
    """The policies that speak on fewer tasks than most."""
    most = max(sampled.values(), default=0)
    return {policy: limit for policy, limit in sampled.items() if limit < most}


def completions_of(session: Session, policy: str, task: TaskView, seconds: float) -> Iterator[list[Message]]:
    perfect = session.asked_oracle(task, seconds)
    if perfect is None or policy == "oracle":
        if policy == "nop":
            yield [says("")]
        elif perfect is not None:
            yield [perfect]
        return
    if policy in ("near-miss", "format-only", "hedge", *FORMS):
        asked = "\n".join(text_of(message) for message in task.prompt)
        for text in session.policies.distorted(policy, text_of(perfect), task.data, asked):
            yield [says(text)]
    else:
        yield [session.policies.reply(policy, task.index, task.data, task.prompt)]


def _play_policies(session: Session, request: Request) -> None:
    """The same for environments that answer back: real rollouts instead of single replies."""
    tasks = list(session.kept.values())[: request["conversations"]]
    seconds = request["seconds"]
    names = [name for name in request["policies"] if name == "nop" or _has_form(session, name, tasks, seconds)]
    rarer = {policy: max(1, limit // 8) for policy, limit in _rarer(request.get("sampled", {})).items()}
    jobs = [
        Job(policy, task.index, 2 if policy == "oracle" else 1)
        for policy in names
        for task in tasks[: rarer.get(policy, len(tasks))]
    ]
    if session.adapter.compares_siblings and "oracle" in names:
        # One of each: two of them at once would draw in turn, and each could get company of one kind only.
        jobs += [Job(MIXED, task.index) for task in tasks]
    # In the order they were asked for, whatever order they come in: what is made of them must not change with it.
    pairs: dict[tuple[int, str], list[dict[str, Any]]] = {(job.task, job.policy): [] for job in jobs}
    for row in session.rollouts(jobs, request["max_concurrent"], seconds * max(4, len(jobs) ** 0.5)):
        pairs[row["task"], row["policy"]].append(row)
    mixed = _in_mixed_company(session) if "oracle" in names else {}  # played with gold, and told once
    for (index, policy), rows in pairs.items():
        if not rows or policy == MIXED:
            continue
        rows.sort(key=lambda row: row["rollout"])
        session.played[index, policy] = rows[0]["reward"]
        session.channel.item("played", {"task": index, "policy": policy, "reward": rows[0]["reward"]})
        if policy == "oracle" and rows[0]["failure"] is None:
            session.golden[index] = rows[0]["completion"]
        again = [row["reward"] for row in rows[1:]] or [rows[0]["reward"]]
        best = max(mixed.get((index, policy), ()), key=_paid, default=None) if policy == "oracle" else None
        if best is not None and _paid(best) > _paid(rows[0]):
            rows[0], again = {**rows[0], **best}, []
        session.channel.item("score", played_score(rows[0], again, session.policies.oracle.derived))
    for (index, policy), siblings in mixed.items():
        for sibling in siblings if policy != "oracle" else ():
            row = {"task": index, "policy": policy, "failures": [], "failure": None, "seconds": 0.0, **sibling}
            session.channel.item("score", played_score(row, [], session.policies.oracle.derived))


def _in_mixed_company(session: Session) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """What gold and near misses earned beside each other, by task and policy: either occurs in training."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for (index, policy, _), siblings in session.siblings.items():
        if policy == MIXED:
            gold = [last_words(each["completion"]) for each in session.siblings.get((index, "oracle", 0), [])]
            for sibling in siblings:
                who = "oracle" if last_words(sibling["completion"]) in gold else "near-miss"
                found.setdefault((index, who), []).append(sibling)
    return found


def _paid(scored: dict[str, Any]) -> float:
    return float("-inf") if scored["reward"] is None else float(scored["reward"])


def _has_form(session: Session, policy: str, tasks: Sequence[TaskView], seconds: float) -> bool:
    if not tasks or session.asked_oracle(tasks[0], seconds) is None:
        return False
    of_answers = ("near-miss", "hedge", "negated", "wrong-first", "wrong-last")
    return policy not in of_answers or session.policies.answer.type != "none"
