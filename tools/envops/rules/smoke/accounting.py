"""Rules of the smoke gate about the evaluation: is each rollout there once, and did the endpoint work?"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from envops.rules.engine import Found, Subject, merged, rule
from envops.rules.evidence import Evidence, described, of_conversation
from envops.rules.failures import OUTSIDE_FAULT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.facts.observed import Rollout

WHO = {
    "provider": "the endpoint",
    "harness": "the harness",
    "infrastructure": "the infrastructure",
}


@rule("SMK010", gate="smoke")
def rollouts_are_surplus(subject: Subject) -> Iterator[Found]:
    """There are more rollouts than requested, or one appears twice.

    What: Each requested rollout of a policy on a task appears exactly once, and there are no others.
    Why: A rollout that counts twice silently changes every mean.
    Fix: Look for an environment that adds rows, or whose tasks share an `example_id`.
    """
    facts = subject.facts
    by_policy: dict[str, list[Rollout]] = defaultdict(list)
    for each in facts.rollouts:
        by_policy[each.policy].append(each)
    for policy, rollouts in by_policy.items():
        times = Counter((each.task, each.rollout) for each in rollouts)
        twice = sorted(which for which, count in times.items() if count > 1)
        if twice:
            task, number = twice[0]
            yield Found(
                f"rollout {number} of {policy} on task {task} appears {times[twice[0]]} times"
                + (f", and so do {len(twice) - 1} others" if len(twice) > 1 else ""),
                Evidence(count=len(twice), of=len(times), details={"policy": policy, "twice": twice[:20]}),
            )
        asked = facts.rollouts_asked.get(policy)
        if asked is not None and len(times) > asked:
            yield Found(
                f"{len(times)} different rollouts of {policy} exist, {asked} were requested",
                Evidence(count=len(times), of=asked, details={"policy": policy}),
            )


@rule("SMK011", gate="smoke")
def endpoint_fails(subject: Subject) -> Iterator[Found]:
    """Rollouts end because something outside the environment failed.

    What: No rollout is lost to the endpoint (refused, unreachable, rate-limited, cut off, malformed), the harness or
        the infrastructure. Such rollouts count as missing, never as 0.0, and the verdict is inconclusive.
    Why: An outage that counts as zeros looks like a model that cannot do the task.
    Fix: Try again when the endpoint is available. With a real endpoint, lower the concurrency. Completed rollouts are
        kept.
    """
    rollouts = subject.facts.rollouts
    by_kind: dict[str, list[Found]] = defaultdict(list)
    for each in rollouts:
        failure = each.failure
        if failure is not None and failure.kind in OUTSIDE_FAULT and not each.timed_out:
            again = f" after {each.retries} retries" if each.retries else ""
            by_kind[failure.kind].append(
                Found(
                    f"{WHO[failure.kind]} failed in rollout {each.rollout} of {each.policy} on task {each.task}: "
                    f"{described(failure)}{again}",
                    of_conversation(subject.facts, each, failure=failure),
                    failure.place,
                    inconclusive=True,
                )
            )
    for hits in by_kind.values():
        yield from merged(hits, len(rollouts), "rollouts")
