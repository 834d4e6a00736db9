"""Publishing one environment: push, read back, and push again only if the push had no effect.

The state of the Hub decides, not the exit code of the CLI. A lost answer of the last call looks
like a failure although the version is published, and so does the refusal of content that is
published already.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from envops.hub.state import HubEnvironment, HubReading
from envops.release.pushing import Push, SourceDiffers
from envops.release.steps import Desired, ReleaseStep
from envops.system.retry_policy import HUB_PUSH, RetryPolicy

PublishOutcome = Literal["published", "unchanged", "failed", "wedged", "unknown"]
"""failed: needs a fix. wedged: needs a new version. unknown: another release finds out."""

READS = 4
"""How often the Hub is read after a push that should show there."""


@dataclass(frozen=True)
class Published:
    """The result for one environment."""

    outcome: PublishOutcome
    message: str
    next: str = ""
    pushes: int = 0
    said: tuple[str, ...] = ()
    """One line of the CLI for each push."""
    after: HubEnvironment | None = None


@dataclass(frozen=True)
class HubSide:
    """Pushing to the Hub and reading from it, as functions that a test can replace."""

    push: Callable[[], Push]
    read: Callable[[], tuple[HubReading, frozenset[str]]]
    """The environment now, and the content hashes of all its versions."""
    stop: threading.Event
    retry: RetryPolicy = HUB_PUSH


def publish(step: ReleaseStep, hub: HubSide) -> Published:
    """Bring one environment on the Hub to the desired state.

    Raises `Interrupted` when `stop` is set.
    """
    said: list[str] = []
    for turn in range(hub.retry.attempts):
        try:
            pushed = hub.push()
        except SourceDiffers as error:
            return Published("failed", str(error), "plan again", len(said), tuple(said))
        said.append("done" if pushed.exit_code == 0 else pushed.short)
        reading, contents = _read_back(step, pushed, hub)
        result = _result(step, pushed, reading, contents, len(said), tuple(said))
        if result is not None:
            return result
        hub.retry.wait(turn, hub.stop)
    message = f"nothing was published in {len(said)} attempts: {said[-1]}"
    return Published("failed", message, "run the release again when the Hub answers", len(said), tuple(said))


def _read_back(step: ReleaseStep, pushed: Push, hub: HubSide) -> tuple[HubReading, frozenset[str]]:
    """The state of the Hub; read again while it cannot be read, or does not show a push that succeeded.

    After a push that may have had an effect all the same, it gets a second look before another push; and as many as
    there may be where the version is listed and is not the latest.
    """
    reading, contents = hub.read()
    looks = {"none": READS, "taken": READS, "passing": 2}.get(pushed.blame, 1)
    for turn in range(READS - 1):
        readable = reading.standing in ("found", "missing")
        between = step.desired.content_hash in contents  # an effect may show between the two answers of one look
        if readable and (_is_whole(step.desired, reading.environment) or (turn + 1 >= looks and not between)):
            break
        hub.retry.wait(turn, hub.stop)
        reading, contents = hub.read()
    return reading, contents


def _result(
    step: ReleaseStep, pushed: Push, reading: HubReading, contents: frozenset[str], pushes: int, said: tuple[str, ...]
) -> Published | None:
    """The result, or `None` where the push had no effect and another may succeed."""

    def published(outcome: PublishOutcome, message: str, then: str = "") -> Published:
        return Published(outcome, message, then, pushes, said, reading.environment)

    wanted, found = step.desired, reading.environment
    if reading.standing not in ("found", "missing"):
        then = "run the release again: it pushes only what is missing"
        return published("unknown", f"the Hub could not be read after the push: {reading.why}", then)
    if _is_there(wanted, found) and found is not None:
        if _is_whole(wanted, found):
            return published("published", f"{wanted.version}, {wanted.visibility}")
        if pushed.blame == "passing":
            return None
        then = f"change it on the environment's page on the Hub, or publish a version: nox -s bump -- {wanted.name}"
        return published("failed", f"the Hub keeps {wanted.address} {found.visibility}", then)
    bump = f"nox -s bump -- {wanted.name}; a new version is required"
    if wanted.content_hash in contents:
        return published("wedged", f"version {wanted.version} is published but is not the newest", bump)
    if _shown(found) != _shown(step.found):
        there = found.version if found else "nothing"
        return published("failed", f"it was changed by someone else in the meantime: the Hub has {there}", "plan again")
    return _without_effect(pushed, wanted, bump, published)


def _without_effect(pushed: Push, wanted: Desired, bump: str, published: Callable[..., Published]) -> Published | None:
    """The result of a push without effect, or `None` where another may succeed."""
    if pushed.blame == "passing":
        return None
    if pushed.blame == "none":
        then = "check the environment's page on the Hub, then run the release again"
        return published("unknown", "the push succeeded, but the Hub does not show it", then)
    if pushed.blame == "taken":
        if "different content" in pushed.said:
            return published("failed", f"version {wanted.version} is already published with other content", bump)
        message = "an interrupted push left a wheel of this content without its source on the Hub"
        return published("wedged", f"{message} ({pushed.short})", bump)
    if pushed.blame == "rights":
        then = f"use a key that can write environments of {wanted.owner}"
        return published("failed", f"the key cannot write here: {pushed.short}", then)
    return published("failed", pushed.short, "fix what it reports, then run the release again")


def _is_there(wanted: Desired, found: HubEnvironment | None) -> bool:
    return found is not None and (found.content_hash, found.version) == (wanted.content_hash, wanted.version)


def _is_whole(wanted: Desired, found: HubEnvironment | None) -> bool:
    return found is not None and _is_there(wanted, found) and found.visibility in ("", wanted.visibility)


def _shown(found: HubEnvironment | None) -> tuple[str, str]:
    return ("", "") if found is None else (found.version, found.content_hash)
