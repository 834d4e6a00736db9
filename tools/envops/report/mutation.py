"""What came of mutating the reward code, in one sentence and in full."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from envops.report.plain_data import number_text

if TYPE_CHECKING:
    from envops.observe.mutation_facts import Mutation

_ENDINGS = {"all": "all there are", "count": "a sample of {exist}", "time": "of {exist}, until the time was up"}


def mutation_sentence(mutation: Mutation) -> str:
    """How many mutants exist, were tried, killed and so on, and which bound ended it."""
    if mutation.score is None:
        return f"mutation: nothing to tell, {mutation.exist} mutants of the reward code"
    tried = len(mutation.mutants)
    counts = {
        "killed": mutation.count("killed"),
        "timed out": mutation.count("timeout"),
        "survived": len(mutation.survivors),
        "equivalent": mutation.count("equivalent"),
        "skipped": mutation.count("skipped"),
    }
    parts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    ending = _ENDINGS[mutation.bound].format(exist=mutation.exist)
    return (
        f"mutation score {mutation.score:.2f}: {tried} mutants tried ({ending}): {parts}; "
        f"{mutation.conversations} conversations, {mutation.cases} of them cases; {number_text(mutation.seconds)} s"
    )


def mutation_data(mutation: Mutation | None) -> dict[str, Any] | None:
    """Everything, every mutant with its diff and what became of it included."""
    return None if mutation is None else {"score": mutation.score, **asdict(mutation)}
