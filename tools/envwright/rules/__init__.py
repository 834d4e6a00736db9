"""The rules, by gate. A module registers its rules when it is imported; `load` imports all."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "schema.declaration",
    "schema.metadata",
    "schema.requirements",
    "schema.documents",
    "schema.wheel",
    "schema.loading",
    "schema.dataset",
    "schema.ignores",
    "rewards.gold",
    "rewards.reply_keys",
    "rewards.policies",
    "rewards.wrong_replies",
    "rewards.invariants",
    "rewards.functions",
    "rewards.scoring",
    "rewards.authors",
    "rewards.declaration",
    "rewards.search",
    "rewards.against",
    "rewards.mutation",
    "rewards.time",
    "smoke.rollouts",
    "distribution.learnable",
    "distribution.groups",
    "distribution.incidents",
    "recordings",
    "runs.compatible",
    "runs.settings",
    "runs.memory",
    "runs.signal",
    "diagnosis",
    "release.versions",
)


def load() -> None:
    """Import every module of rules, once."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
