"""The declared range of rewards and the reward functions, from facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envops.facts.observed import Facts, FunctionScore, RewardFunction, Rollout, Score
from envops.statistics.reward_range import DeclaredRange, is_reward, range_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envops.repository.package import Package

__all__ = ["DeclaredRange", "declared_range", "functions_of", "is_reward", "speakers"]


def declared_range(package: Package, facts: Facts) -> DeclaredRange:
    """The range as declared, its gaps filled from the weights of the functions that scored."""
    return range_of(package.reward, functions_of(facts))


def functions_of(facts: Facts) -> tuple[RewardFunction, ...]:
    """Every function that is declared or that scored, each under the names that scores carry.

    A v1 function may return a mapping: then its entries score, each with the function's
    weight, and its own name never does. Such a function is replaced by its entries.
    """
    declared = facts.description.functions if facts.description else ()
    seen = _seen_functions(facts)
    names = {function.name for function in declared}
    entries = tuple(function for name, function in seen.items() if name not in names)
    spoken = tuple(function for function in declared if function.name in seen or not _speaks_as(function, entries))
    return spoken + entries


def speakers(functions: Mapping[str, FunctionScore]) -> set[str]:
    """Those of a conversation's functions that gave a number."""
    return {name for name, said in functions.items() if said.score is not None}


def _speaks_as(function: RewardFunction, entries: Iterable[RewardFunction]) -> bool:
    return any(entry.kind == function.kind and entry.weight == function.weight for entry in entries)


def _seen_functions(facts: Facts) -> dict[str, RewardFunction]:
    """The functions that scored anything, each with the weight that counts most."""
    seen: dict[str, RewardFunction] = {}
    scores = [*facts.scores, *(case.score for case in facts.cases if case.score is not None)]
    conversations: list[Score | Rollout] = [*scores, *facts.rollouts]
    for each in conversations:
        for name, said in each.functions.items():
            if said.score is None:
                continue
            known = seen.get(name)
            if known is None:
                seen[name] = RewardFunction(name, said.weight, said.kind)
            elif abs(said.weight) > abs(known.weight):
                seen[name] = replace(known, weight=said.weight, kind=said.kind)
    return seen
