"""Cases of the rules of recordings (REC001–REC006), and of replies in results of evaluations (RWD100, RWD101)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envwright.facts.recordings import (
    BEYOND,
    ModelReplies,
    NotCompared,
    RecordedScore,
    RecordingFacts,
    RecordingProblem,
    ScoreChange,
)
from envwright.statistics.baseline import measures
from rule_cases import RuleCases
from subjects import says, subject

if TYPE_CHECKING:
    from envwright.rules.engine import Subject

ROWS = tuple(
    RecordedScore(
        line=task * 2 + number + 1,
        task=task,
        task_key=f"task{task}",
        reward=float(number),
        functions={"correct_answer": float(number), "format_reward": None},
    )
    for task in range(10)
    for number in range(2)
)
BASELINE = {
    "version": 1,
    "environment": "plain-sums",
    "package_version": "0.1.0",
    "reward_digest": "sha256:now",
    "rows": "sha256:rows",
    "date": "2026-11-20",
    "policy": "blend",
    "endpoint": None,
    "asked_tasks": 10,
    "asked_rollouts": 2,
    **measures(ROWS, float),
}
CHANGE = ScoreChange(
    line=4,
    task=1,
    completion=says("<answer>41</answer>"),
    reward=1.0,
    again=0.0,
    functions={"correct_answer": 1.0},
    functions_again={"correct_answer": 0.0},
)


def recorded(baseline: dict[str, Any] | None = None, **changes: Any) -> Subject:
    recording = RecordingFacts(
        file="recordings/blend.jsonl.gz",
        content="sha256:content",
        baseline=BASELINE if baseline is None else {**BASELINE, **baseline},
        rows=ROWS,
        rows_digest="sha256:rows",
        reward_digest="sha256:now",
        compared=20,
    )
    sound = subject()
    return replace(sound, facts=replace(sound.facts, recordings=(replace(recording, **changes),)))


def replied(**changes: Any) -> Subject:
    """With 24 rollouts of a model on 8 tasks."""
    file = "outputs/evals/plain_sums--x/1a/results.jsonl"
    replies = ModelReplies((file,), ("x",), "2026-11-20", 24, earned=20, tasks=40, played=tuple(range(8)), compared=24)
    sound = subject()
    return replace(sound, facts=replace(sound.facts, model_replies=replace(replies, **changes)))


CHANGED = {"changes": (CHANGE,), "change_count": 1}
NOT_COMPARED = NotCompared("their task is no longer among the first tasks", 2, 7)
TOO_MANY = NotCompared(BEYOND, 2, 7)

CASES = {
    "REC001": RuleCases(
        fires={
            "a recorded reply earns less": recorded(**CHANGED),
            "a reply in results earns less": replied(**CHANGED, changed_file="outputs/results.jsonl"),
        },
        silent={
            "everything earns the same": recorded(),
            "the version was raised": recorded({"package_version": "0.0.9"}, **CHANGED),
            "results earn the same": replied(),
        },
    ),
    "REC002": RuleCases(
        fires={
            "another mean": recorded({"mean": 0.75}),
            "a function without a record": recorded(
                {"functions": {**BASELINE["functions"], "luck": {"mean": 1.0, "count": 20}}}
            ),
            "another count of a function": recorded(
                {"functions": {**BASELINE["functions"], "correct_answer": {"mean": 0.5, "count": 19}}}
            ),
            "fewer rollouts": recorded({"rollouts": 21}),
            "other rollouts": recorded({"rows": "sha256:others"}),
            "other tasks": recorded({"tasks": {}}),
            "no mean at all": recorded({"mean": None}),
            "another environment": recorded({"environment": "other-sums"}),
        },
        silent={
            "summed in another order": recorded({"mean": 0.5 + 1e-12}),
            "the files are damaged, which is said once": recorded(
                {"mean": 0.75}, problems=(RecordingProblem("recordings/blend.jsonl.gz", 3, "is not JSON"),)
            ),
        },
    ),
    "REC003": RuleCases(
        fires={"the code changed": recorded({"reward_digest": "sha256:before"})},
        silent={
            "the same code": recorded(),
            "rewards changed too, which says more": recorded({"reward_digest": "sha256:before"}, **CHANGED),
        },
    ),
    "REC004": RuleCases(
        fires={"a damaged line": recorded(problems=(RecordingProblem("recordings/blend.jsonl.gz", 3, "is not JSON"),))},
        silent={"nothing is recorded": subject()},
    ),
    "REC005": RuleCases(
        fires={
            "tasks are gone": recorded(not_compared=(NOT_COMPARED,)),
            "scoring broke off": recorded(failure="Timeout: no answer after 900 s"),
        },
        silent={"a sample of many was compared": recorded(not_compared=(TOO_MANY,))},
    ),
    "REC006": RuleCases(
        fires={"the version was raised": recorded({"package_version": "0.0.9"}, **CHANGED)},
        silent={
            "the version is the same": recorded(**CHANGED),
            "the version was raised and nothing changed": recorded({"package_version": "0.0.9"}),
        },
    ),
    "RWD100": RuleCases(
        fires={"replies to three tasks": replied(references=(0, 2, 5))},
        silent={"replies that are not needed, or not believed": replied()},
    ),
    "RWD101": RuleCases(
        fires={"nothing earned anything": replied(earned=0)},
        silent={
            "one earned something": replied(earned=1),
            "too few rollouts": replied(earned=0, rollouts=19),
            "too few tasks": replied(earned=0, played=(0, 1, 2, 3)),
        },
    ),
}
