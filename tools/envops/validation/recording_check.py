"""Recorded replies, scored again by the code at hand: without a key, without a model.

Environments that take one reply are scored in place. Those that answer back keep state that a
static scoring does not have (v0's `env_response` writes it), so there the recorded turns are
played in real rollouts, and a row counts only where the environment said the same as it did
when it was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envops.facts.observed import Description, FunctionScore, Message, Task
from envops.facts.recordings import NotCompared, RecordedScore, RecordingFacts, ScoreChange
from envops.facts.results import EvaluationRow, task_key
from envops.repository.content import reward_digest
from envops.repository.package import Package
from envops.repository.recordings import RecordingOnDisk, read_recordings
from envops.repository.registry import EnvironmentEntry
from envops.validation.job import StageFailed, WorkerLost, checked
from envops.validation.rescoring import Rescored

Ask = Callable[..., Iterator[tuple[str, Any]]]
"""`Job.request` of a job that has loaded the environment."""

TOLERANCE = 1e-6
MOST_SCORED, MOST_PLAYED = 5_000, 64
"""Rows of one recording that are scored again, and rollouts that are played again."""
BATCH = 400
CHANGES_KEPT = 20
SECONDS_PER_REPLY = 10.0
STAGE_SECONDS = 900.0
BEYOND = "beyond what is scored again of one recording"
_KEPT = ("id", "reward", "functions", "failures", "failure")

Row = tuple[int, EvaluationRow]
Answer = tuple[Rescored, list[Message] | None]


def check_recordings(
    ask: Ask, entry: EnvironmentEntry, package: Package, description: Description, tasks: Sequence[Task]
) -> list[RecordingFacts]:
    """What an environment's recordings are worth under its present code; `ask` reaches its loaded worker.

    A scoring that breaks off is in the facts of its recording. Raises `WorkerLost` when the
    worker is gone.
    """
    digest = reward_digest(entry, package)
    checks = _Check(ask, entry, description, tasks)
    return [checks.of(recording, digest) for recording in read_recordings(package.folder)]


class _Check:
    def __init__(self, ask: Ask, entry: EnvironmentEntry, description: Description, tasks: Sequence[Task]) -> None:
        self._ask = ask
        self._entry = entry
        self._description = description
        self._by_key: dict[str, list[int]] = {}
        for task in tasks:
            self._by_key.setdefault(task_key(task.prompt, task.data), []).append(task.index)

    def of(self, recording: RecordingOnDisk, digest: str) -> RecordingFacts:
        facts = RecordingFacts(
            file=recording.file,
            content=recording.content,
            baseline=recording.baseline,
            problems=recording.problems,
            rows=tuple(_score_of(line, row) for line, row in recording.rows),
            rows_digest=recording.rows_digest,
            reward_digest=digest,
            replayed=self._description.conversational,
        )
        usable, passed_over = self._usable(recording.rows)
        try:
            answers = self._scored(usable)
            changes, compared, more = self._compared(usable, answers)
        except WorkerLost:
            raise
        except StageFailed as error:
            return replace(facts, failure=f"{error.failure.type}: {error.failure.message}"[:500])
        return replace(
            facts,
            compared=compared,
            changes=tuple(changes[:CHANGES_KEPT]),
            change_count=len(changes),
            not_compared=_counted([*passed_over, *more]),
        )

    def _usable(self, rows: Sequence[Row]) -> tuple[list[tuple[int, EvaluationRow, int]], list[tuple[str, int]]]:
        """Rows that can be scored again with the task they belong to; lines of others, and why."""
        usable: list[tuple[int, EvaluationRow, int]] = []
        others: list[tuple[str, int]] = []
        grouped = any(function.group for function in self._description.functions)
        for line, row in rows:
            known = self._by_key.get(row.task_key, [])
            if not row.scored:
                continue  # there was no reward to compare with
            if grouped:
                others.append(("a reward function compares the replies of a group, so none has a reward alone", line))
            elif not known:
                others.append(("their task is no longer among the first tasks", line))
            elif not row.completion:
                others.append(("they hold no conversation", line))
            else:
                usable.append((line, row, row.task if row.task in known else known[0]))
        most = MOST_PLAYED if self._description.conversational else MOST_SCORED
        if len(usable) > most:
            chosen = {position * len(usable) // most for position in range(most)}
            others += [(BEYOND, line) for position, (line, _, _) in enumerate(usable) if position not in chosen]
            usable = [each for position, each in enumerate(usable) if position in chosen]
        return usable, others

    def _scored(self, rows: Sequence[tuple[int, EvaluationRow, int]]) -> dict[int, Answer]:
        """Line → what the code says now."""
        answers: dict[int, Answer] = {}
        for start in range(0, len(rows), BATCH):
            replies = [
                {"id": line, "task": task, "completion": list(row.completion or ())}
                for line, row, task in rows[start : start + BATCH]
            ]
            limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": self._entry.gates.smoke.max_concurrent}
            for kind, value in self._ask("rescore", STAGE_SECONDS, replies=replies, stage="recordings", **limits):
                if kind == "rescored":
                    one = checked(Rescored, {key: value[key] for key in _KEPT if key in value})
                    answers[one.id] = one, value.get("completion")
        return answers

    def _compared(
        self, rows: Sequence[tuple[int, EvaluationRow, int]], answers: Mapping[int, Answer]
    ) -> tuple[list[ScoreChange], int, list[tuple[str, int]]]:
        changed: list[tuple[int, EvaluationRow, int]] = []
        others: list[tuple[str, int]] = []
        compared = 0
        for each in rows:
            line, row, _ = each
            why = self._why_not(row, answers.get(line))
            if why:
                others.append((why, line))
                continue
            compared += 1
            if not _same(row.reward, answers[line][0].reward):
                changed.append(each)
        again = self._scored(changed)
        changes = []
        for line, row, task in changed:
            now = answers[line][0]
            if line not in again or not _same(now.reward, again[line][0].reward):
                compared -= 1
                others.append(("scored twice, they earn two things", line))
                continue
            said = {name: score.score for name, score in now.functions.items()}
            changes.append(
                ScoreChange(line, task, row.completion or (), row.reward, now.reward, _scores(row.functions), said)
            )
        return changes, compared, others

    def _why_not(self, row: EvaluationRow, answer: Answer | None) -> str:
        if answer is None:
            return "the worker gave no answer"
        now, completion = answer
        if now.reward is None and now.failure is not None and now.failure.kind in ("network", "missing-secret"):
            return f"they cannot be scored here: {now.failure.type}"
        if self._description.conversational and _others(completion or ()) != _others(row.completion or ()):
            return "the environment answered something else than when they were recorded"
        return ""


def _others(completion: Sequence[Message]) -> list[tuple[str, str]]:
    """What was said by anyone but the model."""
    return [
        (str(message.get("role")), str(message.get("content") or "").strip())
        for message in completion
        if message.get("role") != "assistant"
    ]


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= TOLERANCE


def _score_of(line: int, row: EvaluationRow) -> RecordedScore:
    reward = row.reward if row.scored else None
    return RecordedScore(line, row.task, row.task_key, reward, _scores(row.functions))


def _scores(functions: Mapping[str, FunctionScore]) -> dict[str, float | None]:
    return {name: said.score for name, said in functions.items()}


def _counted(passed_over: Sequence[tuple[str, int]]) -> tuple[NotCompared, ...]:
    counts = Counter(reason for reason, _ in passed_over)
    first: dict[str, int] = {}
    for reason, line in passed_over:
        first.setdefault(reason, line)
    return tuple(NotCompared(reason, count, first[reason]) for reason, count in counts.most_common())
