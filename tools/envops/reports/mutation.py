"""What came of mutating the reward code, in one sentence and in full."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from envops.text.plain_data import number_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envops.facts.mutation import Mutation

_ENDINGS = {"all": "all there are", "count": "a sample of {exist}", "time": "of {exist}, not all of them decided"}


def mutation_sentence(mutation: Mutation) -> str:
    """How many mutants exist, were tried, killed and so on, and which bound ended it."""
    if mutation.score is None and not mutation.undecided:
        return f"mutation: nothing to tell, {mutation.exist} mutants of the reward code"
    tried = mutation.tried
    counts = {
        "killed": mutation.count("killed"),
        "timed out": mutation.count("timeout"),
        "survived": len(mutation.survivors),
        "equivalent": mutation.count("equivalent"),
        "skipped": mutation.count("skipped"),
        "not decided": mutation.undecided,
    }
    parts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    ending = _ENDINGS[mutation.bound].format(exist=mutation.exist)
    return (
        f"mutation score {score_text(mutation.score_range, '{:.2f}')}: {tried} mutants tried ({ending}): {parts}; "
        f"{mutation.conversations} conversations, {mutation.cases} of them cases; {number_text(mutation.seconds)} s"
    )


def score_text(bounds: Sequence[float] | None, shape: str = "{:.0%}") -> str:
    """A score, or the range in which it lies while mutants are not decided."""
    if bounds is None:
        return "–"
    least, most = bounds
    if least == most:
        return shape.format(least)
    if (least, most) == (0.0, 1.0):
        return "not decided"
    # Rounding must not make the lower end a full score.
    return f"{shape.format(min(least, 0.99)).removesuffix('%')}–{shape.format(most)}"


def mutation_data(mutation: Mutation | None) -> dict[str, Any] | None:
    """Everything, every mutant with its diff and what became of it included; of a brief one the counts alone."""
    if mutation is None:
        return None
    told = {part.name: getattr(mutation, part.name) for part in fields(mutation)}
    del told["unlisted"]  # they are among the counts
    return {"score": mutation.score, "score_range": mutation.score_range, "counts": mutation.outcomes, **told}
