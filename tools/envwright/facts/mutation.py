"""Results of mutating the reward code: the mutants and the conversations that detected them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

MutantOutcome = Literal[
    "killed",  # a case or a policy's bound no longer held, or a function gave no number
    "timeout",  # it hung, which counts as detected
    "survived",  # it was tried on every conversation, and every expectation still held
    "undecided",  # missed by every conversation that could be run, while others took too long
    "equivalent",  # it survived, and the author declares that no reply can detect it
    "skipped",  # it could not replace the running code
]
MutationBound = Literal[
    "all",  # every existing mutant was tried
    "count",  # a stable sample of the allowed size was tried
    "time",  # the time ran out before all of the sample was tried, or a conversation took too long
]


CASES = "cases"
"""The speaker of the author's cases, beside the policies."""


@dataclass(frozen=True)
class CoveredSource:
    """A module with reward code, and its lines that ran while rewards were computed."""

    file: str
    text: str
    """Its source; empty if it is too long to be kept."""
    reached: Mapping[str, tuple[int, ...]]
    """Policy, or `cases` for those of the author → the lines that its conversations reached."""
    path: str | None = None
    """The file as seen from the repository, in a report."""


@dataclass(frozen=True)
class ToldApart:
    """A conversation that the mutant scores differently than the original code: a candidate for a case."""

    task: int
    completion: tuple[dict[str, Any], ...]
    original: Mapping[str, float | None]
    """`reward` and the functions whose scores differ, as the original code scores them."""
    mutant: Mapping[str, float | None]


@dataclass(frozen=True)
class Mutant:
    """One small change of the reward code and its outcome."""

    id: str
    operator: str
    function: str
    file: str
    line: int
    diff: str
    outcome: MutantOutcome
    by: str = ""
    """The conversation that detected it, and how."""
    apart: ToldApart | None = None
    """A reply that distinguishes a survivor, if one was found."""
    reason: str = ""
    """The author's reason for an equivalent mutant."""
    not_asked: tuple[str, ...] = ()
    """The conversations that could not be run, of an undecided mutant that all others missed."""
    start: tuple[int, int] | None = None
    """Line and column of the changed code, both from 1; `None` if they are not known."""
    end: tuple[int, int] | None = None
    """Line and column behind it."""
    replacement: str = ""
    """The code in its place."""


@dataclass(frozen=True)
class StaleMark:
    """An `equivalent` mark whose mutant does not exist or is detected."""

    mutant: str
    reason: str
    killed_by: str = ""


@dataclass(frozen=True)
class Mutation:
    """Mutation testing of one environment."""

    exist: int
    """Mutants of lines that run while rewards are computed."""
    unreached: int
    """Mutants of the same functions that no conversation reaches, so that none was tried."""
    bound: MutationBound
    most: int
    """The most mutants that may be tried."""
    seconds_allowed: float
    """Of a processor."""
    mutants: tuple[Mutant, ...] = ()
    """The sample, in its order."""
    functions: tuple[str, ...] = ()
    """Functions and constants that have mutants."""
    conversations: int = 0
    """The number of conversations per mutant, with the author's cases."""
    cases: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Conversation → why it could not be used."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """Conversation that might have detected mutants → why it took too long; while there is one, no mutant survives."""
    stale: tuple[StaleMark, ...] = ()
    sources: tuple[CoveredSource, ...] = ()
    """The modules with reward code; none in a brief report."""
    watched: bool = False
    """Whether the lines of every conversation are known: there was time for all of them."""
    recorded: bool = False
    """The environment is multi-turn: conversations recorded earlier were scored, none was played."""
    seconds: float = 0.0
    unlisted: Mapping[MutantOutcome, int] = field(default_factory=dict)
    """Number of unlisted mutants by outcome, in a brief report."""

    def count(self, *outcomes: MutantOutcome) -> int:
        return sum(self.outcomes[outcome] for outcome in outcomes)

    @cached_property
    def outcomes(self) -> Counter[MutantOutcome]:
        """The number of mutants by outcome."""
        return Counter(mutant.outcome for mutant in self.mutants) + Counter(self.unlisted)

    @property
    def tried(self) -> int:
        """The number of tried mutants, listed or not."""
        return self.outcomes.total()

    @property
    def killed(self) -> int:
        return self.count("killed", "timeout")

    @property
    def survivors(self) -> tuple[Mutant, ...]:
        return tuple(mutant for mutant in self.mutants if mutant.outcome == "survived")

    @property
    def undecided(self) -> int:
        return self.count("undecided")

    @property
    def missed(self) -> tuple[Mutant, ...]:
        """Undecided mutants that were not detected by any conversation that could be run."""
        return tuple(mutant for mutant in self.mutants if mutant.not_asked)

    @property
    def judged(self) -> int:
        """The number of mutants that count for the score: those neither skipped nor marked as equivalent."""
        return self.killed + len(self.survivors) + self.undecided

    @property
    def score(self) -> float | None:
        """The share of detected mutants, without equivalent and skipped ones; `None` while mutants are undecided."""
        bounds = self.score_range
        return bounds[0] if bounds and not self.undecided else None

    @property
    def score_range(self) -> tuple[float, float] | None:
        """The score if no undecided mutant were detected, and if all were; `None` if there are no mutants."""
        judged = self.judged
        return (self.killed / judged, (self.killed + self.undecided) / judged) if judged else None


_NOTICED: tuple[MutantOutcome, ...] = ("killed", "timeout", "skipped")


def brief(mutation: Mutation | None) -> Mutation | None:
    """The counts, with only the mutants that may need attention."""
    if mutation is None:
        return None
    listed = tuple(mutant for mutant in mutation.mutants if mutant.outcome not in _NOTICED)
    unlisted = {outcome: count for outcome in _NOTICED if (count := mutation.count(outcome))}
    return replace(mutation, mutants=listed, unlisted=unlisted, sources=())
