"""What a perfect model says on an environment's tasks: what a probe's vocabulary is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from envops_worker.messages import text_of

from envops.facts.limits import SECONDS_PER_REPLY, STAGE_SECONDS
from envops.facts.observed import Score
from envops.training.learner.environment import Ground
from envops.validation.job import checked

AT_ONCE = 64


@dataclass(frozen=True)
class Gold:
    """Everything that a perfect model says, turn by turn."""

    texts: tuple[str, ...]


def gold_of(ground: Ground) -> Gold:
    """Ask the oracle about every task that is kept."""
    return Gold(
        tuple(
            text
            for score in _scores(ground)
            for message in score.completion
            if message["role"] == "assistant" and (text := text_of(message))
        )
    )


def _scores(ground: Ground) -> Iterator[Score]:
    asked = {"policies": ["oracle"], "sampled": {}, "conversations": len(ground.tasks)}
    limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": AT_ONCE}
    for kind, value in ground.worker.request("rewards", STAGE_SECONDS, **asked, **limits):
        if kind == "score":
            yield checked(Score, value)
