"""How much an observation looks at, and how long each part of it may take."""

from __future__ import annotations

POLICIES = (
    "oracle",
    "nop",
    "echo",
    "near-miss",
    "format-only",
    "hedge",
    "override",
    "look-alike",
    "negated",
    "wrong-first",
    "wrong-last",
    "think-only",
    "unclosed-think",
    "padded",
    "equivalent",
    "canary-colon",
    "canary-thought",
    "long-junk",
)
TASKS_SPOKEN = 30
"""On how many tasks a policy speaks: a mistake on a tenth of the tasks shows on 29 of them with 95 %."""
SAMPLED = (
    dict.fromkeys(POLICIES[1:7], TASKS_SPOKEN)
    | dict.fromkeys(POLICIES[7:], 20)  # one task tells nearly what all would
    | {"long-junk": 2}
)
"""Policy → on how many tasks it speaks; gold, which is not named, speaks on all of `TASKS_SCORED`."""
TASKS_SCORED = 100
"""How many tasks a worker keeps: reference replies are tried on all of them, and on later ones while there is time."""
TASKS_PLAYED = 6
"""On how many tasks each policy plays, where the environment is multi-turn."""
AT_ONCE = 8
"""Scripted rollouts side by side, where no more are asked for: on loopback more of them save nothing, and httpx
looks through all connections of its pool at every request."""
TASKS_VALIDATED = 100
TASKS_SWEPT = 1_000
"""Reference replies are tried on every task up to this number."""
SECONDS_PER_REPLY = 10.0
LOAD_SECONDS = 300.0
STAGE_SECONDS = 900.0
TESTS_SECONDS = 300.0
