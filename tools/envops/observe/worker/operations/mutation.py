"""Mutants of the reward code, each asked about the same conversations as the code itself.

Everything happens in a fork of the worker: mutants hang, eat memory and leave state behind,
and what is asked of the worker afterwards must not notice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from ..apart import Apart
from ..channel import Request
from ..effort import Budget, BudgetSpent
from ..failures import OutOfTime
from ..forked import ChildDied, items_from_fork
from ..mutant import Mutator, mutator_of
from ..mutation_bench import Bench, Trial
from ..reached import Reached
from ..session import Session

GRACE_SECONDS = 5.0
"""How much longer than its patience a fork may take to notice that it is over."""

Said = tuple[str, Any]
"""An item for the host: its kind and its value."""


def answer(session: Session, request: Request) -> None:
    """`reach`: which lines run. `try`: try the mutants beside other requests. `collect`: what became of them."""
    mutator_of(session.settings.overlay)  # looked up once, before any fork
    if request["step"] == "reach":
        limit = request["patience"] + GRACE_SECONDS
        for kind, value in items_from_fork(session, lambda fork: _reach(fork, request), limit):
            session.channel.item(kind, value)
    elif request["step"] == "try":
        session.mutation = Apart(lambda: {"said": list(_tried(session, request))})
    elif session.mutation is not None:
        for kind, value in session.mutation.result(request["seconds"])["said"]:
            session.channel.item(kind, value)


def _reach(session: Session, request: Request) -> None:
    budget = Budget(request["seconds"], request["patience"])
    reached = Reached(session.sources)
    bench = Bench(session, request["probes"])
    mutator_of(session.settings.overlay).forget()  # what a cache answers would not run
    complete = True
    with reached.watching():
        for probe in bench.probes:
            complete &= budget.left > 0 and bench.attempted(probe, budget.left, budget.patience) is not None
    session.channel.item("reached", {**reached.facts(), "complete": complete})


def _tried(session: Session, request: Request) -> Iterator[Said]:
    """What became of every mutant; one that is not decided when the budget is spent says so."""
    budget = Budget(request["seconds"], request["patience"])
    waiting = {mutant["id"]: mutant for mutant in request["mutants"]}
    survivors: dict[str, Any] = {}
    goes_on = True
    while goes_on and (waiting or survivors) and budget.left > 0:
        goes_on = yield from _tried_in_fork(session, request, waiting, survivors, budget)
    for mutant in waiting.values():
        yield "mutant", Trial(mutant, by="the time was up").facts("undecided")


def _tried_in_fork(
    session: Session, request: Request, waiting: dict[str, Any], survivors: dict[str, Any], budget: Budget
) -> Generator[Said, None, bool]:
    """Try what is waiting in one fork; whether another one can go on where this one died."""
    trying: str | None = None
    limits = {"seconds": budget.left, "patience": budget.patience}
    settings = request | limits | {"mutants": list(waiting.values()), "survivors": list(survivors.values())}
    try:
        for kind, value in items_from_fork(
            session, lambda fork: _try_all(fork, settings), budget.patience + GRACE_SECONDS
        ):
            if kind == "trying":
                trying = value
                continue
            if kind == "mutant":
                tried = waiting.pop(value["id"], None)
                survivors.pop(value["id"], None)
                if tried is not None and value["outcome"] == "survived" and value["apart"] is None:
                    survivors[value["id"]] = tried
            yield kind, value
    except ChildDied as error:
        lost = waiting.pop(trying or "", None)
        survivors.pop(trying or "", None)
        if lost is not None:
            yield "mutant", Trial(lost, by=str(error)).facts("killed")
        return trying is not None
    except OutOfTime:
        return False
    return False


def _try_all(session: Session, request: Request) -> None:
    budget = Budget(request["seconds"], request["patience"])
    bench = Bench(session, request["probes"])
    mutator = mutator_of(session.settings.overlay)
    survivors = [Trial(mutant, "survived") for mutant in request["survivors"]]
    with contextlib.suppress(BudgetSpent):
        for marked in (False, True):  # marked ones last: their author says that it is no use
            trials = [Trial(mutant) for mutant in request["mutants"] if mutant["marked"] == marked]
            survivors += _ask_all(session, bench, mutator, trials, budget)
        for trial in survivors:
            if trial.apart is None:
                session.channel.item("trying", trial.mutant["id"])
                if bench.tells_apart(trial, mutator, request["fragments"], budget):
                    session.channel.item("mutant", trial.facts())


def _ask_all(session: Session, bench: Bench, mutator: Mutator, trials: Sequence[Trial], budget: Budget) -> list[Trial]:
    """Ask all mutants about few conversations, then what is left of them about more; those that survive.

    Raises `BudgetSpent`.
    """
    left = list(trials)
    for batch in bench.batches(budget):
        session.channel.item("left_out", bench.left_out)
        session.channel.item("unasked", bench.unasked)
        for trial in list(left):
            session.channel.item("trying", trial.mutant["id"])
            if bench.decides(trial, mutator, batch, budget):
                session.channel.item("mutant", trial.facts())
                left.remove(trial)
        session.channel.item("trying", None)
    for trial in left:
        trial.outcome = "survived"
        session.channel.item("mutant", trial.facts())
    return left
