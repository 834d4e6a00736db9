"""The limits of an observation, in size and time."""

from __future__ import annotations

from envwright_worker import policies
from envwright_worker.policies.table import format_only, near_miss, nop, oracle

POLICIES = tuple(each.name for each in policies.POLICIES)
SAMPLED = {each.name: each.tasks for each in policies.POLICIES if each.tasks is not None}
"""Policy → the number of tasks that it replies to; the oracle, which is missing here, replies to all of
`TASKS_SCORED`."""
CORE = (oracle.name, nop.name, near_miss.name, format_only.name)
TASKS_SCORED = 100
"""Number of tasks that a worker keeps: reference replies are tried on all of them, and on later ones while there is
time."""
TASKS_PLAYED = 6
"""Number of tasks that each policy plays in a multi-turn environment."""
AT_ONCE = 8
"""The default number of concurrent scripted rollouts: more of them save nothing on loopback, and httpx
looks through all connections of its pool at every request."""
TASKS_VALIDATED = 100
TASKS_SWEPT = 1_000
"""Reference replies are tried on every task up to this number."""
SECONDS_PER_REPLY = 10.0
LOAD_SECONDS = 300.0
STAGE_SECONDS = 900.0
TESTS_SECONDS = 300.0
