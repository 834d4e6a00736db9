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


def formatted(mean):
    return subject(rollouts=rollouts([0, 1] * 10, functions=functions(0.5, mean)))


def of_metric(name, mean):
    """Rollouts of an environment whose only function of form has weight 0."""
    functions = {"points": FunctionScore(0.5, 1.0, "reward"), name: FunctionScore(mean, 0.0, "metric")}
    declared = (function("points"), function(name, 0.0, "metric"))
    scored = (score("oracle", functions=functions),)
    return subject(
        description={"functions": declared},
        scores=scored,
        cases=(),
        rollouts=rollouts(MIXED, functions=functions),
    )


MIXED = [0.0, 1.0] * 10

CASES = {
    "DST001": RuleCases(
        fires={
            "nineteen": rewarded(*MIXED[:19]),
            "fixed policies only": subject(rollouts=rollouts(MIXED, "oracle")),
            "failed ones do not count": subject(rollouts=rollouts(MIXED, failure=failure())),
            "an empty range": between(1.0, 1.0, *MIXED),
        },
        silent={
            "twenty": rewarded(*MIXED),
            "not observed": unloaded("distribution"),
        },
    ),
    "DST002": RuleCases(
        fires={
            "all wrong": rewarded(*[0.0] * 30),
            "at the bound": between(0.0, 20.0, *[1.0] * 30),
            "few and all wrong": rewarded(*[0.0] * 5),
        },
        silent={
            "zero is the middle": between(-1.0, 1.0, *[-1.0, 1.0] * 15),
            "missing is not zero": rewarded(*[None] * 30),
            "a lower bound": rewarded(*[0.2] * 30, distribution=DistributionGate(min_mean=0.01)),
        },
    ),
    "DST003": RuleCases(
        fires={"all right": rewarded(*[1.0] * 30)},
        silent={"half of two": between(0.0, 2.0, *[1.0] * 30)},
    ),
    "DST004": RuleCases(
        fires={
            "all the same": rewarded(*[0.5] * 30),
            "little in a wide range": between(0.0, 100.0, *[50.0, 51.0] * 15),
        },
        silent={"mixed": rewarded(*MIXED)},
    ),
    "DST005": RuleCases(
        fires={
            "rarely": formatted(0.1),
            "a metric of weight 0": of_metric("answer_format", 0.1),
        },
        silent={"often": formatted(0.9)},
    ),
    "DST006": RuleCases(
        fires={"a tenth and more are missing": rewarded(*MIXED, *[None] * 3)},
        silent={"a tenth are missing": rewarded(*[0.0, 1.0] * 9, None, None)},
    ),
    "DST007": RuleCases(
        fires={"raised": unloaded("distribution")},
        silent={"ended": subject()},
    ),
}
