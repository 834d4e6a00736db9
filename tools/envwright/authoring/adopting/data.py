"""The data that an adopted environment downloads: its declaration under `prepare:`, as far as loading shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from envwright.builds.preparation import PreparationFailed, prepare
from envwright.declarations.package import Package
from envwright.declarations.preparation import ProposedPreparation, preparation_lines, proposed_preparation
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Facts
from envwright.observing.exploration import commit_of, explored
from envwright.system.subprocesses import ProgramFailed
from envwright.system.workspace import Workspace


@dataclass(frozen=True)
class DataProposal:
    """The declaration, or the question to the author."""

    rows: tuple[str, ...] = ()
    """Lines of the entry in registry.yaml; none if a part is unknown."""
    question: str = ""
    can_be_prepared: bool = False
    """Whether `envwright prepare` completes the declaration, with a network."""


def proposed_data(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    facts: Facts,
    stop: threading.Event,
    note: Callable[[str], None],
) -> DataProposal | None:
    """The declaration for the data that loading tried to read; `None` if it read none.

    Commits that the code does not name are looked up, and if the Hub answers, the environment is loaded once with the
    network, because loading stops at the first missing data.
    """
    if entry.prepare.needed or not facts.wanted or not _lacks_data(facts):
        return None
    proposal = proposed_preparation(facts.wanted)
    unpinned = [one.name for one in proposal.preparation.datasets if not one.revision]
    if unpinned and commit_of(unpinned[0]):
        try:
            proposal = proposed_preparation(explored(entry, package, workspace, stop, note).wanted)
        except ProgramFailed as error:
            note(f"{entry.name}: loading it with the network failed: {error.failure.message}")
    if proposal.is_complete and proposal.preparation.needed:
        return DataProposal(preparation_lines(proposal.preparation))
    return DataProposal(question=_question(entry.name, proposal), can_be_prepared=proposal.preparation.needed)


def prepared(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    stop: threading.Event,
    note: Callable[[str], None],
) -> str:
    """Download an entry's data; returns why that failed, or an empty text."""
    try:
        prepare(entry, package, workspace, stop, note)
    except PreparationFailed as error:
        return error.problem.message
    return ""


def _lacks_data(facts: Facts) -> bool:
    return any(failure.kind == "network" for stage, failure in facts.failures.items() if stage in ("load", "tasks"))


def _question(name: str, proposal: ProposedPreparation) -> str:
    names = [one.name for one in proposal.preparation.datasets]
    what = ", ".join([*names, *proposal.others][:3]) or "the data that loading requests"
    if proposal.others:
        return f"how to download its data, as a command under prepare: {what}"
    return f"which commit of its data to use: `envwright prepare {name}` looks it up with a network ({what})"
