"""Property-based search with hypothesis: no reply of this grammar earns the reward on tasks that exclude each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from envwright_worker.search.grading import CandidateTrial
from envwright_worker.search.material import AnswerForm

PATTERNS_USED = 12
SAMPLES = 40
JOINTS = ("", " ", "\n", ", ", "; ", " or ")


class PaidBlindly(AssertionError):
    """The property does not hold; hypothesis makes the reply smaller."""


def prepare(unicode: str) -> None:
    """Import hypothesis so that it writes nothing and reads no other source code.

    `unicode` is the folder of its tables.

    Raises `ImportError` if it is not installed.
    """
    from hypothesis.configuration import set_hypothesis_home_dir
    from hypothesis.internal.conjecture import providers

    set_hypothesis_home_dir(unicode)
    if hasattr(providers, "_get_local_constants"):  # parses every module loaded, which takes longer than the search
        nothing = providers._local_constants
        providers._get_local_constants = lambda: nothing


def _settings(examples: int, *phases: str) -> Any:
    from hypothesis import HealthCheck, Phase, Verbosity, settings

    return settings(
        database=None,
        max_examples=examples,
        deadline=None,
        phases=[Phase[phase] for phase in phases],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
    )


def samples(patterns: Sequence[str], seed: int) -> list[str]:
    """Texts that match the regular expressions of the reward's own source."""
    from hypothesis import given
    from hypothesis import seed as seeded

    found: dict[str, None] = {}
    strategy = _matching(patterns)

    def draw(text: str) -> None:
        found.setdefault(text)

    if strategy is not None:
        with suppress(Exception):  # the search skips a pattern without matches
            seeded(seed)(_settings(SAMPLES, "generate")(given(strategy)(draw)))()
    return list(found)


def _matching(patterns: Sequence[str]) -> Any:
    from hypothesis import strategies as some

    letters = some.characters(codec="ascii", exclude_categories=("Cc",), include_characters="\n")
    kept: list[Any] = []
    for pattern in patterns:
        with suppress(Exception):  # it does not compile, or nothing matches it
            strategy = some.from_regex(pattern, fullmatch=True, alphabet=letters)
            strategy.validate()
            kept.append(strategy)
        if len(kept) == PATTERNS_USED:
            break
    return some.one_of(kept) if kept else None


def replies(forms: Sequence[AnswerForm], tokens: Sequence[str], patterns: Sequence[str]) -> Any:
    """A grammar of replies: tokens and matches joined somehow, bare or in one or several forms."""
    from hypothesis import strategies as some

    matching = _matching(patterns)
    token = some.sampled_from(tokens)
    numbers = some.integers(-1_000, 10_000).map(str)
    part = some.one_of([token, numbers, *([] if matching is None else [matching])])
    parts = some.lists(part, max_size=8)
    joined = some.tuples(some.sampled_from(JOINTS), parts).map(lambda drawn: drawn[0].join(drawn[1]))
    repeated = some.tuples(joined, some.sampled_from((1, 1, 1, 3, 50))).map(lambda drawn: drawn[0] * drawn[1])
    if not forms:
        return repeated
    framed = some.tuples(some.sampled_from(forms), repeated).map(lambda drawn: drawn[0].saying(drawn[1]))
    several = some.tuples(some.sampled_from(forms), some.lists(joined, min_size=2, max_size=4)).map(
        lambda drawn: drawn[0].lead + "\n".join(map(drawn[0].marked, drawn[1]))
    )
    return some.one_of(framed, repeated, several)


def search(strategy: Any, seed: int, examples: int, try_out: Callable[[str], CandidateTrial]) -> None:
    """Try replies until one breaks the property, and then smaller ones that do."""
    from hypothesis import given, target
    from hypothesis import seed as seeded

    def nothing_is_paid_blindly(reply: str) -> None:
        trial = try_out(reply)
        if len(trial.likes) > 1:
            raise PaidBlindly
        if math.isfinite(trial.fitness):
            target(trial.fitness)

    with suppress(PaidBlindly):
        seeded(seed)(_settings(examples, "generate", "target", "shrink")(given(strategy)(nothing_is_paid_blindly)))()
