"""The rules, by gate. A module registers its rules when it is imported; `load` imports all."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "schema.declaration",
    "schema.metadata",
    "schema.requirements",
    "schema.loading",
    "schema.dataset",
    "rewards.gold",
    "rewards.reply_keys",
    "rewards.policies",
    "rewards.invariants",
    "rewards.scoring",
    "rewards.authors",
    "rewards.declaration",
    "rewards.search",
    "rewards.against",
    "rewards.mutation",
    "rewards.time",
    "smoke",
    "distribution",
    "recordings",
    "runs.compatible",
    "runs.settings",
    "runs.signal",
    "diagnosis",
    "reward_hacking",
    "releases",
)


def load() -> None:
    """Import every module of rules, once."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
