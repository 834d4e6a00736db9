"""Cases of the rules of time: slow rewards, conversations without an end, and what the budget left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envwright.declarations.run import run_spec
from envwright.facts.observed import Cut, EndlessConversation, Pace
from envwright.rules.engine import Subject
from rule_cases import RuleCases
from subjects import case, failure, rollouts, score, scores, subject

RUN = run_spec(
    "sums-1b",
    {"backend": "trl", "model": "a/b", "environments": [{"id": "plain-sums"}], "max_steps": 10, "batch_size": 64},
    {},
    "registry.yaml",
)
TURN = ({"role": "assistant", "content": "<answer>7</answer>"}, {"role": "user", "content": "Try again."})
ENDLESS = EndlessConversation(0, "near-miss", 200, TURN * 3)


def paced(seconds: float, blocked: float = 0.0) -> Subject:
    return subject(pace=Pace(2, seconds, blocked))


def cut(stage: str, done: int, of: int = 1_000, seconds: float = 900.0, **changes: Any) -> Cut:
    return Cut(stage, "replies", done, of, seconds, **changes)


ONLY_GOLD = tuple(score for score in scores(2) if score.policy == "oracle")
CASES = {
    "RWD093": RuleCases(
        fires={
            "blocking": paced(1.2, 1.2),
            "waiting, in a run with few rollouts at once": replace(
                paced(3.0), runs=(RUN, replace(RUN, max_concurrent=4))
            ),
        },
        silent={
            "not measured": subject(),
            "under half a second": paced(0.4, 0.4),
            "waiting": paced(3.0),
        },
    ),
    "RWD094": RuleCases(
        fires={
            "near misses": subject(endless=(ENDLESS,), description={"conversational": True}),
            "rollouts": subject(rollouts=rollouts([None], failure=failure("timeout", "EndlessConversation"))),
            "a case": subject(
                cases=(case({"reward": "0.0"}, score=score("case", failure=failure("timeout", "EndlessConversation"))),)
            ),
        },
        silent={"others fail": subject(rollouts=rollouts([None], failure=failure("timeout")))},
    ),
    "RWD095": RuleCases(
        fires={
            "replies": subject(cuts=(cut("rewards", 80),)),
            "the search": subject(cuts=(cut("search", 0),)),
        },
        silent={
            "rollouts are another gate's": subject(cuts=(cut("smoke", 6),)),
            "too little to judge": subject(cuts=(cut("rewards", 2),), scores=ONLY_GOLD),
        },
    ),
    "RWD096": RuleCases(
        fires={
            "only references": subject(cuts=(cut("rewards", 2),), scores=ONLY_GOLD),
            "loading": subject(cuts=(cut("load", 0, 0, 0.0, reason="no answer after 180 s"),), scores=()),
        },
        silent={"the search alone is missing": subject(cuts=(cut("search", 0),), scores=ONLY_GOLD)},
    ),
    "SMK014": RuleCases(
        fires={"fewer tasks": subject(cuts=(cut("smoke", 6, 30),), rollouts=rollouts([1.0] * 6, "oracle"))},
        silent={"none": subject(cuts=(cut("smoke", 0, 30),))},
    ),
    "SMK015": RuleCases(
        fires={"none": subject(cuts=(cut("smoke", 0, 30),))},
        silent={"fewer": subject(cuts=(cut("smoke", 3, 30),))},
    ),
    "DST019": RuleCases(
        fires={"fewer tasks": subject(cuts=(cut("distribution", 24, 128),))},
        silent={"other rollouts": subject(cuts=(cut("smoke", 6, 30),))},
    ),
}
