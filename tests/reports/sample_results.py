"""Results that the report tests render: one of everything, and one of everything bad."""

from __future__ import annotations

from dataclasses import replace

from envwright.declarations.problem import Problem
from envwright.facts.observed import FunctionScore
from envwright.reports.result import EnvironmentResult, StageFailure, ValidationResult
from envwright.rules.engine import GATES, Finding
from envwright.rules.evidence import EarnedReward, Evidence, ShownReply

HOSTILE = (
    "</script></details><img src=x onerror=alert(1)>\n"
    "```\n````` # heading | cell | cell\n"
    "::error file=a::owned\n##[add-path]/tmp\n"
    "@everyone [link](http://evil.example) ]]>&amp;\n"
    "\x00\x07\x1b[31mred\x1b]8;;http://evil.example\x07\x9b\r\u202egnp.exe\u2066\u200b\ufffe\ud800 '\"` end"
)

MISSED_GOLD = Finding(
    rule="RWD001",
    gate="rewards",
    severity="error",
    message="the oracle's reply earns 0.2 of 1.0 (2 of 10 conversations)",
    fix="Compare the parsed answer as a number, not as text.",
    evidence=Evidence(
        reply=ShownReply(3, "<think>\nthree zeros\n</think>\n<answer>1,000</answer>", "oracle"),
        earned=EarnedReward(
            0.2,
            {
                "correct_answer": FunctionScore(0.0, 0.8, "reward"),
                "format_reward": FunctionScore(1.0, 0.2, "reward"),
                "turns": FunctionScore(1, 0.0, "metric"),
            },
        ),
        count=2,
        of=10,
        more=(Evidence(reply=ShownReply(7, "<answer>2,500</answer>", "oracle"), earned=EarnedReward(0.2)),),
    ),
    file="environments/reverse_text/reverse_text/taskset.py",
    line=31,
)
THIN = Finding(
    "DST003", "distribution", "error", "12 rollouts are too few to say", "Raise smoke.rollouts.", inconclusive=True
)
ADVICE = Finding(
    "SCH010",
    "schema",
    "advice",
    "the README has no reward table",
    "Add one under `## Reward`.",
    Evidence(),
    "environments/reverse_text/README.md",
)
IGNORED = Finding(
    "RWD007",
    "rewards",
    "error",
    "the hedge policy earns 0.9",
    "Score the last answer.",
    ignored=True,
    reason="listing is the task",
)
TIMEOUT = StageFailure(
    "rewards",
    "timeout",
    "Timeout",
    "the worker returned no result for 30 s and was stopped",
    "environments/word_sort/word_sort.py",
    88,
    "Traceback (most recent call last):\n  time.sleep(1000)\nTimeout",
)
PROBLEMS = (
    Problem("registry.yaml", 12, "unknown key", "environments.reverse-text", "gatez", "args, gates, ignore", "gates"),
    Problem("environments/gsm8k/requirements.lock", None, "does not match pyproject.toml", fix="envwright lock gsm8k"),
)

ALL_PASS = EnvironmentResult(
    name="gsm8k",
    folder="environments/gsm8k",
    verdict="pass",
    generation="v1",
    package_version="0.2.0",
    digest="sha256:" + "11" * 32,
    cached=True,
    gates=dict.fromkeys(GATES, "pass"),
    policies=("oracle", "blend"),
)
FAILING = EnvironmentResult(
    name="reverse-text",
    folder="environments/reverse_text",
    verdict="fail",
    generation="v1",
    package_version="0.1.0",
    digest="sha256:" + "ab12" * 16,
    hub_hash="cd" * 32,
    seconds=8.13,
    stage_seconds={"load": 4.0},
    gates={"schema": "pass", "rewards": "fail", "smoke": "pass", "distribution": "inconclusive"},
    reasons={"rewards": "RWD001", "distribution": "too little evidence: DST003"},
    findings=(MISSED_GOLD, THIN, ADVICE, IGNORED),
    tasks_count=10,
    scores_count=70,
    rollouts_count=30,
    policies=("oracle", "nop"),
)
BROKEN = EnvironmentResult(
    name="word-sort",
    folder="environments/word_sort",
    verdict="error",
    generation="v0",
    package_version="1.0",
    digest="sha256:" + "22" * 32,
    seconds=31.5,
    gates={"schema": "pass", "rewards": "error"},
    reasons={"rewards": "rewards: timeout, Timeout"},
    failures=(TIMEOUT,),
)


def passing() -> ValidationResult:
    """Everything passed, from the cache."""
    return ValidationResult("pass", (ALL_PASS,), seconds=0.4, tool="0.1.0")


def mixed() -> ValidationResult:
    """One passes, one fails, one is not judged."""
    return ValidationResult("fail", (ALL_PASS, FAILING, BROKEN), seconds=41.2, tool="0.1.0")


def mistaken() -> ValidationResult:
    """The declarations are wrong."""
    return ValidationResult("fail", problems=PROBLEMS, tool="0.1.0")


def interrupted() -> ValidationResult:
    """Ctrl-C after the first environment."""
    return ValidationResult(
        "error", (ALL_PASS,), interrupted=True, unfinished=("word-sort",), seconds=3.0, tool="0.1.0"
    )


def found(*findings: Finding) -> ValidationResult:
    """One environment fails with these findings alone."""
    return ValidationResult("fail", (replace(FAILING, findings=findings),))


def hostile() -> ValidationResult:
    """Text from replies and code of others, everywhere it can come from."""
    finding = Finding(
        "RWD001",
        "rewards",
        "error",
        HOSTILE,
        HOSTILE,
        Evidence(
            reply=ShownReply(0, HOSTILE, HOSTILE),
            earned=EarnedReward(float("nan"), {HOSTILE: float("-inf")}),
            details={HOSTILE: {HOSTILE: [HOSTILE]}, "numbers": [float("inf"), 10**5000]},
            more=(Evidence(reply=ShownReply(1, HOSTILE)),),
        ),
        "x/../" + HOSTILE,
        1,
    )
    failure = StageFailure("smoke", "crash", HOSTILE, HOSTILE, HOSTILE, None, HOSTILE)
    environment = replace(
        FAILING,
        package_version=HOSTILE,
        seconds=float("nan"),
        reasons={"rewards": HOSTILE, "distribution": HOSTILE},
        findings=(
            finding,
            replace(finding, severity="advice"),
            replace(finding, ignored=True, reason=HOSTILE),
        ),
        failures=(failure,),
        policies=(HOSTILE,),
    )
    problem = Problem(HOSTILE, 3, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    return ValidationResult("fail", (environment,), (problem,), unfinished=(HOSTILE,), tool="0.1.0")
