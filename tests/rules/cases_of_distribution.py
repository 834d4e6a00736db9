"""Cases of the rules of the distribution gate."""

from __future__ import annotations

from envwright.declarations.package import RewardDeclaration
from envwright.declarations.registry import DistributionGate
from envwright.facts.observed import FunctionScore
from rule_cases import RuleCases
from subjects import failure, function, functions, rollouts, score, subject, unloaded


def rewarded(*rewards, **changes):
    return subject(rollouts=rollouts(rewards), **changes)


def between(minimum, maximum, *rewards):
    """The same with another declared range."""
    return rewarded(*rewards, declared=RewardDeclaration(min=minimum, max=maximum))


def formatted(mean, **changes):
    return subject(rollouts=rollouts([0, 1] * 10, functions=functions(0.5, mean)), **changes)


def of_metric(name, mean, **changes):
    """Rollouts of an environment whose only function of form has weight 0."""
    functions = {"points": FunctionScore(0.5, 1.0, "reward"), name: FunctionScore(mean, 0.0, "metric")}
    declared = (function("points"), function(name, 0.0, "metric"))
    scored = (score("oracle", functions=functions),)
    return subject(
        description={"functions": declared},
        scores=scored,
        cases=(),
        rollouts=rollouts(MIXED, functions=functions),
        **changes,
    )


MIXED = [0.0, 1.0] * 10

CASES = {
    "DST001": RuleCases(
        fires={
            "nineteen": rewarded(*MIXED[:19]),
            "none": subject(rollouts=()),
            "fixed policies only": subject(rollouts=rollouts(MIXED, "oracle")),
            "failed ones do not count": subject(rollouts=rollouts(MIXED, failure=failure())),
            "a higher bound": rewarded(*MIXED, distribution=DistributionGate(min_rollouts=50)),
            "an empty range": between(1.0, 1.0, *MIXED),
        },
        silent={
            "twenty": rewarded(*MIXED),
            "of a model whose results were handed in": subject(rollouts=rollouts(MIXED, "qwen3-4b")),
            "not observed": unloaded("distribution"),
        },
    ),
    "DST002": RuleCases(
        fires={
            "all wrong": rewarded(*[0.0] * 30),
            "at the bound": between(0.0, 20.0, *[1.0] * 30),
            "at the bottom of a range below zero": between(-1.0, 1.0, *[-1.0] * 30),
            "few and all wrong": rewarded(*[0.0] * 5),
        },
        silent={
            "half": rewarded(*MIXED),
            "zero is the middle": between(-1.0, 1.0, *[-1.0, 1.0] * 15),
            "missing is not zero": rewarded(*[None] * 30),
            "a lower bound": rewarded(*[0.2] * 30, distribution=DistributionGate(min_mean=0.01)),
        },
    ),
    "DST003": RuleCases(
        fires={"all right": rewarded(*[1.0] * 30), "in a range up to two": between(0.0, 2.0, *[2.0] * 30)},
        silent={"half": rewarded(*MIXED), "half of two": between(0.0, 2.0, *[1.0] * 30)},
    ),
    "DST004": RuleCases(
        fires={
            "all the same": rewarded(*[0.5] * 30),
            "little in a wide range": between(0.0, 100.0, *[50.0, 51.0] * 15),
        },
        silent={"mixed": rewarded(*MIXED), "continuous": rewarded(*[index / 30 for index in range(30)])},
    ),
    "DST005": RuleCases(
        fires={
            "rarely": formatted(0.1),
            "a metric of weight 0": of_metric("answer_format", 0.1),
            "a function by declaration": subject(
                declared=RewardDeclaration(format=("correct_answer",)),
                rollouts=rollouts(MIXED, functions=functions(0.1, 0.9)),
            ),
        },
        silent={
            "often": formatted(0.9),
            "no format function": subject(
                description={"functions": (function("points"),)},
                scores=(score("oracle", functions={"points": FunctionScore(1.0, 1.0, "reward")}),),
                cases=(),
                rollouts=rollouts(MIXED, functions={"points": FunctionScore(0.1, 1.0, "reward")}),
            ),
            "a metric that is often met": of_metric("answer_format", 0.9),
            "a metric that counts errors": of_metric("format_errors", 0.1),
            "a metric, declared to be none": of_metric("answer_format", 0.1, declared=RewardDeclaration(format=())),
            "declared to be none": formatted(0.1, declared=RewardDeclaration(format=())),
        },
    ),
    "DST006": RuleCases(
        fires={"a tenth and more are missing": rewarded(*MIXED, *[None] * 3)},
        silent={"a tenth are missing": rewarded(*[0.0, 1.0] * 9, None, None), "none are": rewarded(*MIXED)},
    ),
    "DST007": RuleCases(
        fires={"raised": unloaded("distribution")},
        silent={"a crash is not the environment's": unloaded("distribution", "crash")},
    ),
}
