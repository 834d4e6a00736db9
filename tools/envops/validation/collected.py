"""What is known of an environment while it is being observed: parts as the worker sends them, in the end facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from envops_worker.policies.blend import BLEND

from envops.facts.mutation import Mutation
from envops.facts.observed import (
    Act,
    Case,
    Dataset,
    Description,
    Facts,
    Failure,
    GoldSweep,
    Growth,
    JudgedScore,
    NetworkAttempt,
    Repetition,
    Rollout,
    Score,
    Stage,
    Task,
    TestOutcome,
    Validation,
)
from envops.facts.recordings import RecordingFacts
from envops.facts.search import Search
from envops.validation.job import WorkerLost, checked

KINDS: dict[str, type] = {
    "task": Task,
    "dataset": Dataset,
    "score": Score,
    "case": Case,
    "validation": Validation,
    "test": TestOutcome,
    "rollout": Rollout,
    "search": Search,
    "network": NetworkAttempt,
    "sweep": GoldSweep,
    "repetition": Repetition,
    "growth": Growth,
    "act": Act,
    "judged": JudgedScore,
    "sample": dict,
    "recording": RecordingFacts,
}
"""What a worker may send, and the shape that it must have."""


SECTIONS: tuple[str, ...] = ("load", "rewards", "invariants", "repetition", "smoke", "distribution", "tests", "search",
                             "recordings")  # fmt: skip
"""In which order facts are put together, whatever order they come in: jobs work side by side."""


STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass
class Collected:
    """Facts while they are still coming in."""

    description: Description | None = None
    parts: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    """By section and kind."""
    played: dict[tuple[int, str], float | None] = field(default_factory=dict)
    """What rollouts for the rewards gate earned, by task and policy."""
    failures: dict[Stage, Failure] = field(default_factory=dict)
    completed: list[Stage] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    mutation: Mutation | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def kept(self, kind: str) -> tuple[Any, ...]:
        """Everything of a kind."""
        return tuple(part for section in SECTIONS for part in self.parts.get((section, kind), ()))

    def add(self, section: str, kind: str, part: Any) -> None:
        """Keep one part."""
        self.parts.setdefault((section, kind), []).append(part)

    def take(
        self, section: str, answers: Iterator[tuple[str, Any]], advance: Callable[[int, int], None], total: int = 0
    ) -> None:
        """Keep what a job sends, and tell `advance` how much of the total is there."""
        count = 0
        for kind, value in answers:
            if kind == "description":
                self.description = checked(Description, value)
            elif kind == "overlap" and self.description is not None:
                pairs = tuple((first, second) for first, second in value["pairs"])
                self.description = replace(self.description, overlap=pairs, overlap_count=value["count"])
            elif kind == "played":
                self.played[value["task"], value["policy"]] = value["reward"]
            elif kind in KINDS:
                self.add(section, kind, checked(KINDS[kind], value))
                count += 1
                advance(count, max(total, count))
            else:
                failure = Failure("protocol", "ProtocolError", f"the worker sent a part of unknown kind {kind!r}")
                raise WorkerLost(failure)

    def facts(self, environment: str, key: str, digest: str) -> Facts:
        """All that has come in, as facts."""
        return Facts(
            environment=environment,
            key=key,
            digest=digest,
            description=self._described(),
            tasks=self.kept("task"),
            scores=self.kept("score"),
            cases=self.kept("case"),
            validations=self.kept("validation"),
            tests=self.kept("test"),
            rollouts=tuple(map(self._predicted, self.kept("rollout"))),
            rollouts_asked=self.asked,
            mutation=self.mutation,
            network=self.kept("network"),
            search=next(iter(self.kept("search")), None),
            sweeps=self.kept("sweep"),
            repetitions=self.kept("repetition"),
            growths=self.kept("growth"),
            acts=self.kept("act"),
            judged=self.kept("judged"),
            recordings=self.kept("recording"),
            failures=self.failures,
            completed=tuple(sorted(self.completed, key=STAGES.index)),
            seconds=self.seconds,
        )

    def _predicted(self, rollout: Rollout) -> Rollout:
        """The rollout, beside what the same policy earned on its task when the rewards gate played it."""
        reward = self.played.get((rollout.task, rollout.policy))
        return rollout if reward is None or rollout.policy == BLEND else replace(rollout, predicted=reward)

    def _described(self) -> Description | None:
        """The description with the data sets that were read after it."""
        return self.description and replace(self.description, datasets=self.kept("dataset"))
