"""Rules of a conversation's reward: it exists, is in range, and is the same again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright_worker.reward_equality import same_reward

from envwright.facts.reward_numbers import number
from envwright.facts.stages import needed_by
from envwright.rules.engine import Found, Subject, merged, rule
from envwright.rules.evidence import described, of_conversation, of_failure
from envwright.rules.failures import (
    OFFLINE_FIX,
    REFUSED_FIX,
    is_offline,
    is_outside_the_environment,
    needs_the_network,
    own_failure,
    refuses_reply,
)
from envwright.rules.gold import best_paid, failed_by_the_oracle, is_of_the_oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.facts.observed import Score


@rule("RWD030", gate="rewards")
def reward_is_out_of_range(subject: Subject) -> Iterator[Found]:
    """A reward is outside the declared range.

    What: Every reward is between the declared minimum and maximum. By default these are the sums of the negative and
        of the positive weights.
    Why: Thresholds, filters and plots rely on the range.
    Fix: Fix the function that exceeds its weight, or declare the range: `[tool.envwright.reward] min` and `max`.
    """
    declared = subject.range
    scored = subject.rewarded_conversations
    outside = [score for score in scored if score.reward is not None and not declared.contains(score.reward)]
    lowest, highest = number(declared.minimum), number(declared.maximum)
    hits = [
        Found(
            f"reward {number(score.reward)} on task {score.task} ({score.policy}) is outside {lowest} to {highest}",
            of_conversation(subject.facts, score, expected=f"between {lowest} and {highest}"),
            best_paid(subject, score) if (score.reward or 0.0) > declared.maximum else None,
        )
        for score in outside
    ]
    yield from merged(hits, len(scored))


@rule("RWD031", gate="rewards")
def reward_changes_on_repetition(subject: Subject) -> Iterator[Found]:
    """The same reply earns another reward the second time.

    What: A conversation that is scored again earns the same. The first 6 of each policy are scored again.
    Why: Noise looks like skill. The reward depends on chance, the clock or earlier calls.
    Fix: Seed random draws from the task, and keep no state between calls.
    """
    repeated = [score for score in subject.facts.scores if score.again]
    hits = [
        Found(
            f"the same reply earns {number(score.reward)}, then {', '.join(number(again) for again in score.again)}, "
            f"on task {score.task} ({score.policy})",
            of_conversation(subject.facts, score, details={"again": list(score.again)}),
        )
        for score in repeated
        if score.again != (score.reward,) * len(score.again) and not _all_same(score)
    ]
    yield from merged(hits, len(repeated))


def _all_same(score: Score) -> bool:
    return all(same_reward(score.reward, again) for again in score.again)


@rule("RWD032", gate="rewards")
def conversation_is_not_scored(subject: Subject) -> Iterator[Found]:
    """A conversation could not be scored.

    What: Every conversation of every policy gets a reward.
    Why: Such replies are lost or count as zero. The zero is undeserved. A warning where an environment of several
        agents raises on a reply from which it cannot make the next agent's task.
    Fix: Fix the reported line. If there is none, look for a path on which no function returns a value.
    """
    scored = subject.facts.scores
    hits = [_without_reward(subject, score) for score in scored if _lacks_reward(subject, score)]
    hits.sort(key=lambda hit: hit.inconclusive)
    yield from merged([hit for hit in hits if hit.severity is None], len(scored))
    yield from merged([hit for hit in hits if hit.severity is not None], len(scored))


def _without_reward(subject: Subject, score: Score) -> Found:
    offline = is_offline(score.failure) or needs_the_network(score.failure)
    refuses = refuses_reply(subject, score)
    return Found(
        f"task {score.task} ({score.policy}) got no reward: "
        + (described(score.failure) if score.failure else _silent(score)),
        of_conversation(subject.facts, score, failure=score.failure),
        score.failure.place if score.failure else None,
        fix=OFFLINE_FIX if offline else REFUSED_FIX if refuses else None,
        inconclusive=is_outside_the_environment(score.failure) or needs_the_network(score.failure),
        severity="warning" if refuses else None,
    )


def _lacks_reward(subject: Subject, score: Score) -> bool:
    """Whether there is no reward, and no other rule reports the cause."""
    if score.failures:
        return False
    if score.failure is None:
        return score.reward is None
    of_the_oracle = is_of_the_oracle(score.failure) or failed_by_the_oracle(subject, score)
    return score.failure.kind != "timeout" and not of_the_oracle


def _silent(score: Score) -> str:
    silent = [name for name, scored in score.functions.items() if scored.score is None]
    return f"{', '.join(silent)} returned no number" if silent else "no function returned a reason"


@rule("RWD033", gate="rewards")
def stage_of_rewards_fails(subject: Subject) -> Iterator[Found]:
    """Scoring, validation or tests fail as a whole.

    What: The stages of the rewards gate complete.
    Why: Nothing is proven about the untried part.
    Fix: Fix the reported line.
    """
    reported = set()
    for stage in needed_by("rewards"):
        if stage in needed_by("schema"):
            continue  # loading has rules of its own
        failure = own_failure(subject, stage)
        if failure is not None and described(failure) not in reported:
            reported.add(described(failure))  # stages with one cause are one finding
            offline = needs_the_network(failure)
            yield Found(
                f"the stage {stage} failed: {described(failure)}",
                of_failure(failure),
                failure.place,
                fix=OFFLINE_FIX if offline else None,
                inconclusive=offline,
            )
