"""What an observation is asked for, as commands put it."""

from __future__ import annotations

from dataclasses import dataclass

from envops.facts.stages import StageName


@dataclass(frozen=True)
class ObservationRequest:
    """What to observe, and how."""

    allow_network: bool = False
    use_cache: bool = True
    evaluate: bool = True
    """Whether rollouts are wanted, which the gates smoke and distribution need."""
    score: bool = True
    """Whether scores, cases and tests are wanted, which the gate rewards needs."""
    only_replies: bool = False
    """Whether of all that only the replies of policies and cases are wanted, without what is slow to observe."""
    harness: str | None = None
    """The harness of verifiers v1 that plays; `None` is the one that runs in the worker and needs no network."""
    evaluations: tuple[StageName, ...] = ("smoke", "distribution")
    """Which of them are played, where rollouts are wanted."""
    tasks: int | None = None
    """On how many tasks, instead of what the gates declare."""
    rollouts: int | None = None
    """How many on each, instead of what the gates declare."""
    stages: tuple[StageName, ...] | None = None
    """Only these stages and those that they need; `None` is every stage that the other settings ask for."""

    @property
    def wants_replies(self) -> bool:
        """Whether policies reply: rollouts are compared with their scores too."""
        return self.score or self.evaluate

    @property
    def wants_whole_gate(self) -> bool:
        """Whether everything of the gate rewards is wanted."""
        return self.score and not self.only_replies

    @property
    def wants_rollouts(self) -> bool:
        return self.evaluate and not self.only_replies
