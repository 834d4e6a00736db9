"""A probe from its first rollout to its verdict: does the reward of an environment reach a gradient?

It proves nothing else. A tiny model without a language does not show whether a real one will learn.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from envwright.facts.limits import SECONDS_PER_REPLY, STAGE_SECONDS
from envwright.facts.observed import Score
from envwright.observing.job import checked
from envwright.statistics.clusters import clustered_mean
from envwright.statistics.intervals import Estimate
from envwright_worker.messages import text_of
from envwright_worker.policies.baselines import oracle

from envwright_learner.environment import TrainingEnvironment
from envwright_learner.probe.learning import ProbeSettings, ProbeStep, ProbeTraining
from envwright_learner.probe.policy import TinyPolicy, tiny_policy, warm_up
from envwright_learner.probe.vocabulary import (
    INSTEAD,
    SMALLER,
    NotForAProbe,
    Vocabulary,
    require_single_turn,
    vocabulary_of,
)

CONFIDENCE = 0.95
HELD_OUT_SHARE = 0.2
MOST_HELD_OUT = 32
ROLLOUTS_PER_TASK = 4
CONTROL_STEPS = 5
CONTROL_REWARD = 0.5
MOST_STEPS = 1_000
MOST_TOKENS = 64
"""The most characters of a reply that a model of this size can learn."""
AT_ONCE = 64
"""The number of reference replies that are scored at once."""

ProbeOutcome = Literal["learned", "not learned", "control moved"]


@dataclass(frozen=True)
class ProbeResult:
    """The result of a probe."""

    before: Estimate
    after: Estimate
    steps: tuple[ProbeStep, ...]
    control_change: float
    """The largest change of any weight in the control, where every rollout had the same reward."""
    control_gradient: float
    weights: int
    held_out: int

    @property
    def outcome(self) -> ProbeOutcome:
        if self.control_change > 0 or self.control_gradient > 0:
            return "control moved"
        return "learned" if self.after.low > self.before.high else "not learned"


def probe(
    environment: TrainingEnvironment,
    seed: int,
    seconds: float,
    folder: Path,
    seen: Callable[[ProbeStep], None],
    say: Callable[[str], None],
) -> ProbeResult:
    """Train a tiny policy on the environment for this many seconds, and a control with a constant reward.

    Raises `NotForAProbe` if the environment is multi-turn, reference replies are too long, or chance earns nothing.
    """
    require_single_turn(environment.description)
    references = reference_replies(environment)
    vocabulary, most_tokens = _vocabulary(environment, references)
    training, held_out = divided([task.index for task in environment.tasks], seed)
    policy = _policy(environment, references, vocabulary, most_tokens, seed)
    settings = ProbeSettings(most_tokens=most_tokens, seed=seed)
    learning = ProbeTraining(environment, vocabulary, policy, settings, folder / "policy", seen)
    control = _control(learning, folder, training)
    say(f"control: {CONTROL_STEPS} steps at a constant reward change no weight by more than {control[0]:g}")
    earned = learning.evaluated(held_out, ROLLOUTS_PER_TASK)
    met = {reward for group in earned for reward in group}
    if len(met) < 2:
        raise NotForAProbe(
            f"a model that replies at random earned {next(iter(met), 'nothing')} in each of "
            f"{sum(map(len, earned))} rollouts: no reward was reached by chance. {SMALLER}, or {INSTEAD}"
        )
    before = _mean(earned)
    say(f"before: reward {before.value:.3f} [{before.low:.3f}, {before.high:.3f}] on {len(held_out)} tasks held out")
    learning.run(training, MOST_STEPS, seconds)
    after = _mean(learning.evaluated(held_out, ROLLOUTS_PER_TASK))
    return ProbeResult(before, after, tuple(learning.steps), *control, policy.num_parameters(), len(held_out))


def divided(tasks: Sequence[int], seed: int) -> tuple[list[int], list[int]]:
    """Tasks to train on, and tasks for the measurement."""
    shuffled = random.Random(seed).sample(list(tasks), len(tasks))
    kept = max(1, min(MOST_HELD_OUT, int(len(tasks) * HELD_OUT_SHARE)))
    return shuffled[kept:] or shuffled, shuffled[:kept]


def reference_replies(environment: TrainingEnvironment) -> tuple[str, ...]:
    """Every reply of the oracle on the kept tasks, turn by turn."""
    asked = {"policies": [oracle.name], "sampled": {}, "conversations": len(environment.tasks)}
    limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": AT_ONCE}
    parts = environment.worker.request("rewards", STAGE_SECONDS, **asked, **limits)
    scores = [checked(Score, value) for kind, value in parts if kind == "score"]
    replies = [message for score in scores for message in score.completion if message["role"] == "assistant"]
    return tuple(text for message in replies if (text := text_of(message)))


def _vocabulary(environment: TrainingEnvironment, references: Sequence[str]) -> tuple[Vocabulary, int]:
    if not references:
        raise NotForAProbe(f"the reference replies have no text. Instead: {INSTEAD}")
    vocabulary = vocabulary_of([task.prompt for task in environment.tasks], references)
    frame = len(vocabulary.opening) + len(vocabulary.closing)
    longest = max(len(text) for text in references) - frame
    if longest > MOST_TOKENS:
        raise NotForAProbe(
            f"reference replies have up to {longest} characters of their own, and the limit is {MOST_TOKENS}. "
            f"{SMALLER}, or {INSTEAD}"
        )
    return vocabulary, longest + 2


def _policy(
    environment: TrainingEnvironment, references: Sequence[str], vocabulary: Vocabulary, most_tokens: int, seed: int
) -> TinyPolicy:
    heard = [vocabulary.heard(task.prompt) for task in environment.tasks]
    turns = max(2, len(references) // max(1, len(environment.tasks)) + 1)
    policy = tiny_policy(vocabulary, turns * (max(map(len, heard)) + most_tokens) + most_tokens, seed)
    frame = len(vocabulary.opening) + len(vocabulary.closing)
    warm_up(policy, vocabulary, heard, [len(text) - frame for text in references])
    return policy


def _control(learning: ProbeTraining, folder: Path, training: Sequence[int]) -> tuple[float, float]:
    """The largest change of a weight, and the largest gradient, if all rollouts have the same reward."""
    settings = replace(learning.settings, constant=CONTROL_REWARD)
    policy = copy.deepcopy(learning.policy)
    control = ProbeTraining(
        learning.environment, learning.vocabulary, policy, settings, folder / "control", lambda _: None
    )
    control.run(training, CONTROL_STEPS, float("inf"))
    pairs = zip(learning.policy.parameters(), policy.parameters(), strict=True)
    change = max(float((one - other).detach().abs().max()) for one, other in pairs)
    return change, max((step.gradient for step in control.steps), default=0.0)


def _mean(rewards: Sequence[Sequence[float]]) -> Estimate:
    return clustered_mean([group for group in rewards if group], CONFIDENCE)
