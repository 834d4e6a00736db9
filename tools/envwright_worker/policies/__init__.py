"""The table of scripted policies: the reply of each, its number of tasks, and its allowed reward.

A family of policies is a module that registers them with the decorator `Policy`. To add a policy, write a function in
the module of its family; to add a family, write its module and import it here. The endpoint, the rewards gate, the key
of the facts and docs/policies.md read the table; rules name the policies that they judge.
"""

from __future__ import annotations

from envwright_worker.policies import (  # noqa: F401 - each registers its policies
    baselines,
    distorted_answers,
    equivalent_answers,
    grader_attacks,
)
from envwright_worker.policies.policy import REGISTERED, Policy, UnknownPolicy

POLICIES: tuple[Policy, ...] = tuple(
    sorted(REGISTERED.values(), key=lambda each: float("inf") if each.tasks is None else each.tasks, reverse=True)
)
"""All policies in the order in which they reply to a task: those that reply to more tasks come first."""
REPEATED = tuple(policy.name for policy in POLICIES if policy.is_repeated)
"""The policies whose conversations are scored again under other circumstances."""
SAMPLED_TASKS = 8
"""The number of their tasks if replies are cheap."""


def policy_named(name: str) -> Policy:
    """The policy with this name. Raises `UnknownPolicy`."""
    try:
        return REGISTERED[name]
    except KeyError:
        raise UnknownPolicy(name) from None
