"""Mutation testing: whether cases and policies notice when the reward code is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envops.facts.observed import Place
from envops.facts.reward_numbers import number
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import Evidence, described, of_failure, of_reply, shown_reply
from envops.rules.ready_case import ready_case
from envops.rules.schema.metadata import in_pyproject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.facts.mutation import Mutant, Mutation
    from envops.facts.observed import Facts

GOOD_SCORE = 0.9
"""Below this, the cases do not hold the reward code to what it does."""
MOST_MISSED = 5


@rule("RWD080", gate="rewards", severity="warning")
def many_mutants_survive(subject: Subject) -> Iterator[Found]:
    """Changes of the reward code go unnoticed.

    What: Of the mutants of the reward code (a comparison flipped, a boundary moved, a condition or a
        normalisation dropped, a constant changed) cases and policies notice at least 90 %.
    Why: What no case notices, the next change of the reward breaks without anybody seeing it; and a
        training run is the most expensive place to find out.
    Fix: Add cases to tests/cases.yaml; RWD081 shows each mutant that survived, with a case that tells it
        apart where one was found. A mutant that nothing can tell apart is marked in pyproject.toml:
        `[tool.envops.mutation] equivalent = [{ mutant = "…", reason = "…" }]`.
    """
    mutation = subject.facts.mutation
    if mutation is None or mutation.score_range is None:
        return
    at_worst, at_best = mutation.score_range
    # What was not decided may yet be noticed: the code is not accused of it.
    if at_best >= GOOD_SCORE - 1e-9:
        return
    survivors = mutation.survivors
    judged = mutation.killed + len(survivors)
    score = f"{at_best:.2f}" if mutation.score is not None else f"{at_worst:.2f} to {at_best:.2f}"
    yield Found(
        f"mutation score {score}: {len(survivors)} of {judged} mutants of the reward code go unnoticed"
        + ("" if mutation.cases else "; there are no cases that could notice"),
        Evidence(details=_counts(mutation) | {"survivors": "\n".join(mutant.id for mutant in survivors)}),
        Place("tests/cases.yaml"),
    )


@rule("RWD081", gate="rewards", severity="advice")
def mutant_survives(subject: Subject) -> Iterator[Found]:
    """A change of the reward code goes unnoticed.

    What: Each mutant of the reward code breaks a case, a policy's bound or the reward itself. A mutant
        survives when it was asked about every conversation; where one took too long, it is not decided.
    Why: The line could be wrong in this way today and every check would still pass.
    Fix: Add the case that is shown, or one like it. If nothing can tell the mutant apart, mark it in
        pyproject.toml: `[tool.envops.mutation] equivalent = [{ mutant = "…", reason = "…" }]`.
    """
    mutation = subject.facts.mutation
    for mutant in mutation.survivors if mutation else ():
        told = "" if mutant.apart is None else ", and a reply tells it apart"
        yield Found(
            f"{mutant.operator} in {mutant.function} goes unnoticed{told}",
            _evidence(subject.facts, mutant),
            Place(mutant.file, mutant.line),
        )


@rule("RWD082", gate="rewards", severity="advice")
def there_is_nothing_to_mutate(subject: Subject) -> Iterator[Found]:
    """Mutation testing found no reward code of the package's own.

    What: While rewards are computed, at least one line of the package runs that can be mutated, and at
        least one conversation can be held against the mutants.
    Why: Without either, mutation testing says nothing, and its silence is no praise.
    Fix: If the rewards are a library's, test them with cases and ignore this. If conversations were left
        out, the evidence says why.
    """
    mutation, failure = subject.facts.mutation, subject.facts.failures.get("mutation")
    if failure is not None:
        yield Found(f"mutation testing broke off: {described(failure)}", of_failure(failure), failure.place)
    if mutation is None or (mutation.exist and mutation.conversations):
        return
    what = "no line that can be mutated runs" if mutation.conversations else "no conversation can be scored again"
    yield Found(f"{what} while rewards are computed", Evidence(details=_counts(mutation) | _left_out(mutation)))


@rule("RWD083", gate="rewards", severity="warning")
def equivalent_mark_is_wrong(subject: Subject) -> Iterator[Found]:
    """A mark of an equivalent mutant does not hold.

    What: Every mutant in `[tool.envops.mutation] equivalent` exists and is told apart by nothing.
    Why: A mark that outlives its line hides nothing today and the wrong thing tomorrow; one on a mutant
        that a reply tells apart hides a missing case.
    Fix: Remove the mark, or replace the id by the one that the report shows now.
    """
    mutation = subject.facts.mutation
    for mark in mutation.stale if mutation else ():
        yield Found(
            f"mutant {mark.mutant!r} is marked as equivalent, "
            + (f"but it is told apart: {mark.killed_by}" if mark.killed_by else "but there is no such mutant"),
            Evidence(details={"mutant": mark.mutant, "reason": mark.reason}),
            in_pyproject(subject.package, "tool.envops.mutation.equivalent"),
        )


@rule("RWD084", gate="rewards", severity="advice")
def many_mutants_are_not_decided(subject: Subject) -> Iterator[Found]:
    """Mutation testing ran out of time.

    What: At least nine in ten of the sample of mutants are decided: noticed by a conversation, or asked
        about all of them.
    Why: While mutants are open, the score is a range and not a number; slow scoring slows down training, too.
    Fix: Make the reward faster: compile patterns once, bound what is compared, read files when loading.
        Where the machine was busy, try again.
    """
    mutation = subject.facts.mutation
    if mutation is None or mutation.undecided <= (1 - GOOD_SCORE) * len(mutation.mutants):
        return
    yield Found(
        f"{mutation.undecided} of {len(mutation.mutants)} mutants were not decided "
        f"in {number(mutation.seconds_allowed)} s of the processor",
        Evidence(details=_counts(mutation) | _left_out(mutation) | _missed(mutation)),
    )


def _counts(mutation: Mutation) -> dict[str, Any]:
    """How many there are, ran, were killed and so on, and which bound ended it."""
    return {
        "mutants": {
            "exist": mutation.exist,
            "tried": len(mutation.mutants),
            "killed": mutation.count("killed"),
            "timed out": mutation.count("timeout"),
            "survived": len(mutation.survivors),
            "equivalent": mutation.count("equivalent"),
            "skipped": mutation.count("skipped"),
            "not decided": mutation.undecided,
            "not reached": mutation.unreached,
        },
        "ended by": {
            "all": "every mutant was decided",
            "count": f"the limit of {mutation.most} mutants",
            "time": f"the limit of {number(mutation.seconds_allowed)} s of the processor, or slow conversations",
        }[mutation.bound],
        "conversations": mutation.conversations,
        "cases": mutation.cases,
    }


def _left_out(mutation: Mutation) -> dict[str, Any]:
    """Conversations that no mutant was asked about, and why."""
    without = {"left out": mutation.left_out, "took too long": mutation.unasked}
    return {title: [f"{name}: {why}" for name, why in named.items()][:5] for title, named in without.items() if named}


def _missed(mutation: Mutation) -> dict[str, Any]:
    """Undecided mutants that every conversation missed that could be asked."""
    missed = [f"{mutant.id}\n{mutant.diff}" for mutant in mutation.missed]
    return {"missed by all that were asked": missed[:MOST_MISSED], "missed": len(missed)} if missed else {}


def _evidence(facts: Facts, mutant: Mutant) -> Evidence:
    details: dict[str, Any] = {"mutant": mutant.id, "diff": mutant.diff}
    if mutant.apart is not None:
        apart = mutant.apart
        details |= {
            "code itself": dict(apart.original),
            "by mutant": dict(apart.mutant),
            "ready case": ready_case(f"tells {mutant.id} apart", apart.task, apart.completion, apart.original),
        }
        return replace(of_reply(facts, shown_reply(apart.task, apart.completion)), details=details)
    return Evidence(details=details)
