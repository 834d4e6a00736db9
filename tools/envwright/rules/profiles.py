"""The rewards of each policy: the numbers behind the charts in reports.

A profile summarizes many conversations without their text. Rules judge it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

from envwright_worker.messages import text_of

from envwright.facts.observed import FunctionScore
from envwright.facts.reward_numbers import is_reward_number
from envwright.statistics.clusters import clustered_mean
from envwright.statistics.declared_range import functions_of, is_reward
from envwright.statistics.intervals import Estimate, mean
from envwright.statistics.outcomes import RolloutOutcome, RolloutSample, grouped, outcome_of_rollout
from envwright.statistics.relations import Correlation, RewardBySize, SizedReward, correlation, rewards_by_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from envwright_worker.messages import Message

    from envwright.facts.observed import Facts, RewardFunction, Rollout, Score
    from envwright.facts.recordings import RecordingFacts
    from envwright.rules.engine import Subject
    from envwright.statistics.declared_range import DeclaredRange

ProfileSource = Literal["scored", "rollouts", "recording"]
MOST_VALUES = 24
"""The most different values that are counted singly; more are counted in as many bins of equal width."""
MOST_CORRELATED = 12
"""The most functions that are compared with each other."""
MOST_TASKS = 200
"""Tasks with a group of their own."""
LARGEST = 1e150
"""A larger number counts as this one, as the square of 1e155 is no number any more."""


@dataclass(frozen=True)
class Spread:
    """The scores of one function, or the total rewards."""

    name: str
    """`reward` for the total."""
    kind: Literal["total", "reward", "metric"]
    weight: float
    count: int
    missing: int
    """Conversations without a number."""
    mean: float | None
    low: float | None
    high: float | None
    """The interval of the mean, clustered by task; metrics have none."""
    values: tuple[tuple[float, int], ...]
    """The frequency of each value, or of the middle of each bin."""
    binned: bool = False


class Group(NamedTuple):
    """The rewards of one policy on one task."""

    task: int | str
    rollouts: int
    mean: float
    deviation: float
    """The deviation between rollouts of this task; 0 if all earned the same, which leaves nothing to learn."""


@dataclass(frozen=True)
class RewardProfile:
    """The rewards of one policy or model, in total and by task, as returned."""

    policy: str
    source: ProfileSource
    """The source: one reply for each task, scored in process; rollouts over HTTP; or the rows of a recording."""
    scripted: bool
    tasks: int
    spreads: tuple[Spread, ...]
    """The total first, then functions that count, then metrics."""
    groups: tuple[Group, ...]
    """Task by task, those without any reward left out; the first 200."""
    tokens: tuple[int, int] | None = None
    """Tokens of prompts and of replies, if the provider counted them."""
    seconds: float = 0.0
    """Seconds of all its conversations together."""
    correlations: tuple[Correlation, ...] = ()
    """Each pair of its functions, where they differ between rollouts."""
    by_length: tuple[RewardBySize, ...] = ()
    """The reward by the characters of all replies of a rollout; recordings are without."""
    by_turns: tuple[RewardBySize, ...] = ()
    """The reward by the number of replies of a rollout."""


def profiles(subject: Subject) -> tuple[RewardProfile, ...]:
    """A profile of each policy: scored in process, evaluated, recorded, each in the order of the facts."""
    make = _Maker(subject.range, subject.entry.gates.distribution.confidence)
    scores: dict[str, list[Score]] = defaultdict(list)
    for score in subject.facts.scores:
        scores[score.policy].append(score)
    rollouts: dict[tuple[str, str | None], list[Rollout]] = defaultdict(list)
    for rollout in subject.facts.rollouts:
        rollouts[rollout.policy, rollout.model].append(rollout)
    return (
        *(make.of_scores(policy, found) for policy, found in scores.items()),
        *(make.of_rollouts(policy, model, found) for (policy, model), found in rollouts.items()),
        *(make.of_recording(recording, subject.facts) for recording in subject.facts.recordings if recording.rows),
    )


@dataclass(frozen=True)
class _Maker:
    range: DeclaredRange
    confidence: float

    def of_scores(self, policy: str, scores: Sequence[Score]) -> RewardProfile:
        outcomes = [
            _bounded(
                RolloutOutcome(score.task, score.reward, score.functions, "environment" if score.failure else None)
            )
            for score in scores
        ]
        return self._made(policy, "scored", outcomes, seconds=math.fsum(score.seconds for score in scores))

    def of_rollouts(self, policy: str, model: str | None, rollouts: Sequence[Rollout]) -> RewardProfile:
        outcomes = [_bounded(outcome_of_rollout(each)) for each in rollouts]
        counted = [each.tokens for each in rollouts if each.tokens is not None]
        tokens = (sum(prompt for prompt, _ in counted), sum(reply for _, reply in counted)) if counted else None
        seconds = math.fsum(each.seconds for each in rollouts)
        made = self._made(policy, "rollouts", outcomes, tokens, seconds, model)
        scored = [pair for pair in zip(outcomes, rollouts, strict=True) if pair[0].is_scored]
        return replace(
            made,
            by_length=self._by_size([(outcome, _characters(rollout)) for outcome, rollout in scored]),
            by_turns=self._by_size([(outcome, len(_replies(rollout))) for outcome, rollout in scored]),
        )

    def _by_size(self, sized: Sequence[tuple[RolloutOutcome, int]]) -> tuple[RewardBySize, ...]:
        """The rewards by size; empty if all sizes are the same."""
        rewards = [SizedReward(each.task, size, each.reward) for each, size in sized if each.reward is not None]
        return rewards_by_size(rewards, self.confidence) if len({reward.size for reward in rewards}) > 1 else ()

    def of_recording(self, recording: RecordingFacts, facts: Facts) -> RewardProfile:
        """The weights of a recording's functions: its rows have none, so the current ones are used."""
        known = {each.name: each for each in functions_of(facts)}
        outcomes = [
            RolloutOutcome(
                row.task_key,
                row.reward,
                {name: _as_now(name, score, known) for name, score in row.functions.items()},
            )
            for row in recording.rows
        ]
        model = recording.baseline.get("model")
        speaker = model or recording.baseline.get("policy") or recording.file
        return self._made(str(speaker), "recording", [*map(_bounded, outcomes)], model=model)

    def _made(
        self,
        policy: str,
        source: ProfileSource,
        outcomes: Sequence[RolloutOutcome],
        tokens: tuple[int, int] | None = None,
        seconds: float = 0.0,
        model: str | None = None,
    ) -> RewardProfile:
        sample = RolloutSample(policy, tuple(outcomes), self.range, self.confidence, model)
        rewards = {
            task: [each.reward for each in found if each.reward is not None] for task, found in sample.by_task.items()
        }
        groups = [_group(task, found) for task, found in list(rewards.items())[:MOST_TASKS] if found]
        return RewardProfile(
            policy=policy,
            source=source,
            scripted=sample.is_scripted,
            tasks=len(grouped(outcomes)),
            spreads=(_total(sample, rewards), *_functions(outcomes, self.confidence)),
            groups=tuple(groups),
            tokens=tokens,
            seconds=round(seconds, 3),
            correlations=() if source == "scored" else tuple(_correlations(sample.scored)),
        )


def _bounded(outcome: RolloutOutcome) -> RolloutOutcome:
    """The outcome without numbers beyond `LARGEST`."""
    functions = {name: replace(score, score=_nearer(score.score)) for name, score in outcome.functions.items()}
    return replace(outcome, reward=_nearer(outcome.reward), functions=functions)


def _nearer(value: float | None) -> float | None:
    return math.copysign(LARGEST, value) if is_reward_number(value) and abs(value) > LARGEST else value


def _replies(rollout: Rollout) -> list[Message]:
    return [message for message in rollout.completion if message.get("role") == "assistant"]


def _characters(rollout: Rollout) -> int:
    return sum(len(text_of(message)) for message in _replies(rollout))


def _correlations(outcomes: Sequence[RolloutOutcome]) -> Iterator[Correlation]:
    """Each pair of functions, the total reward first; those that count before metrics."""
    known = {name: score for outcome in outcomes for name, score in outcome.functions.items()}
    names = sorted(known, key=lambda name: not is_reward(known[name]))[:MOST_CORRELATED]
    values = [
        {"reward": outcome.reward, **{name: score.score for name, score in outcome.functions.items()}}
        for outcome in outcomes
    ]
    for first, second in combinations(dict.fromkeys(["reward", *names]), 2):
        found = [(one.get(first), one.get(second)) for one in values]
        pairs = [(a, b) for a, b in found if is_reward_number(a) and is_reward_number(b)]
        yield Correlation(first, second, _rounded(correlation(pairs)), len(pairs))


def _as_now(name: str, score: float | None, known: Mapping[str, RewardFunction]) -> FunctionScore:
    function = known.get(name)
    return FunctionScore(score, function.weight if function else 0.0, function.kind if function else "metric")


def _total(sample: RolloutSample, rewards: Mapping[int | str, Sequence[float]]) -> Spread:
    declared = sample.range
    estimate = clustered_mean(sample.clusters, sample.confidence) if sample.clusters else None
    if estimate is not None:
        low, high = (declared.minimum + bound * declared.span for bound in (estimate.low, estimate.high))
        estimate = Estimate(declared.minimum + estimate.value * declared.span, low, high)
    values = [reward for found in rewards.values() for reward in found]
    return _spread("reward", "total", 1.0, values, sample.attempted - len(values), estimate)


def _functions(outcomes: Sequence[RolloutOutcome], confidence: float) -> list[Spread]:
    """A spread for each function with a score, weighted ones first."""
    scores: dict[str, dict[int | str, list[float]]] = defaultdict(lambda: defaultdict(list))
    known: dict[str, FunctionScore] = {}
    missing: Counter[str] = Counter()
    for outcome in outcomes:
        for name, score in outcome.functions.items():
            if name not in known or abs(score.weight) > abs(known[name].weight):
                known[name] = score
            if score.score is None or not math.isfinite(score.score) or outcome.error is not None:
                missing[name] += 1
            else:
                scores[name][outcome.task].append(score.score)
    ordered = sorted(known, key=lambda name: not is_reward(known[name]))
    return [_function(name, known[name], scores[name], missing[name], confidence) for name in ordered]


def _function(
    name: str, known: FunctionScore, by_task: Mapping[int | str, Sequence[float]], missing: int, confidence: float
) -> Spread:
    clusters = list(by_task.values())
    values = [value for cluster in clusters for value in cluster]
    counts = is_reward(known)
    estimate = clustered_mean(clusters, confidence) if clusters and counts else None
    if estimate is None and values:
        estimate = Estimate(mean(values), math.nan, math.nan)
    return _spread(name, "reward" if counts else "metric", known.weight, values, missing, estimate)


def _spread(
    name: str,
    kind: Literal["total", "reward", "metric"],
    weight: float,
    values: Sequence[float],
    missing: int,
    estimate: Estimate | None,
) -> Spread:
    counted, binned = _counted(values)
    center, low, high = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
    return Spread(
        name, kind, weight, len(values), missing, _rounded(center), _rounded(low), _rounded(high), counted, binned
    )


def _counted(values: Sequence[float]) -> tuple[tuple[tuple[float, int], ...], bool]:
    """The frequency of each value in order; many different values in bins, by their centres."""
    counts = Counter(float(f"{value:.6g}") for value in values)
    if len(counts) <= MOST_VALUES:
        return tuple(sorted(counts.items())), False
    least, most = min(counts), max(counts)
    width = (most - least) / MOST_VALUES
    bins: Counter[int] = Counter()
    for value, count in counts.items():
        bins[min(MOST_VALUES - 1, int((value - least) / width))] += count
    return tuple((float(f"{least + (index + 0.5) * width:.6g}"), bins[index]) for index in sorted(bins)), True


def _group(task: int | str, rewards: Sequence[float]) -> Group:
    center = mean(rewards)
    deviation = math.sqrt(math.fsum((reward - center) ** 2 for reward in rewards) / len(rewards))
    return Group(task, len(rewards), float(f"{center:.6g}"), float(f"{deviation:.6g}"))


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
