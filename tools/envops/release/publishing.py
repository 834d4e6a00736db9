"""Publishing one environment: push, read back, and push again only where nothing happened.

The verdict is what the Hub shows afterwards. The CLI's exit code is not: a lost answer of the
last call looks like a failure although the version is published, and a refusal of content that
is there looks like one although nothing is wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from envops.hub.retry_policy import USUAL_PATIENCE, Patience
from envops.hub.state import HubEnvironment, Reading
from envops.release.pushing import Push, SourceDiffers
from envops.release.steps import Desired, Step

Outcome = Literal["published", "unchanged", "failed", "wedged", "unknown"]
"""Failed stays failed until somebody acts; wedged needs a new version; unknown is settled by another run."""


@dataclass(frozen=True)
class Published:
    """What came of one environment."""

    outcome: Outcome
    message: str
    next: str = ""
    pushes: int = 0
    said: tuple[str, ...] = ()
    """What the CLI said at each push, in one line."""
    after: HubEnvironment | None = None


@dataclass(frozen=True)
class HubSide:
    """The two things that are done at the Hub; apart, so that the way between them can be tested alone."""

    push: Callable[[], Push]
    read: Callable[[], tuple[Reading, frozenset[str]]]
    """The environment as it is now, and every content hash among its versions."""
    stop: threading.Event
    patience: Patience = USUAL_PATIENCE


def publish(step: Step, hub: HubSide) -> Published:
    """Bring the Hub to what is wanted of one environment, whatever happens on the way.

    Raises `Interrupted` when asked to stop.
    """
    said: list[str] = []
    for turn in range(hub.patience.pushes):
        try:
            pushed = hub.push()
        except SourceDiffers as error:
            return Published("failed", str(error), "plan again", len(said), tuple(said))
        said.append("done" if pushed.exit_code == 0 else pushed.short)
        reading, contents = _read_back(step, pushed, hub)
        told = _told(step, pushed, reading, contents, len(said), tuple(said))
        if told is not None:
            return told
        hub.patience.wait(turn, hub.stop)
    message = f"nothing was published in {len(said)} tries: {said[-1]}"
    return Published("failed", message, "run the release again when the Hub answers", len(said), tuple(said))


def _read_back(step: Step, pushed: Push, hub: HubSide) -> tuple[Reading, frozenset[str]]:
    """What the Hub shows; asked again while it cannot be read, or does not show what was said to be there.

    After a push that may have had an effect all the same, it gets a second look before another push; and as many as
    there may be where the version is listed and is not the latest.
    """
    reading, contents = hub.read()
    patience = {"none": hub.patience.reads, "taken": hub.patience.reads, "passing": 2}.get(pushed.blame, 1)
    for turn in range(hub.patience.reads - 1):
        readable = reading.standing in ("found", "missing")
        between = step.desired.content_hash in contents  # an effect may show between the two answers of one look
        if readable and (_is_whole(step.desired, reading.environment) or (turn + 1 >= patience and not between)):
            break
        hub.patience.wait(turn, hub.stop)
        reading, contents = hub.read()
    return reading, contents


def _told(
    step: Step, pushed: Push, reading: Reading, contents: frozenset[str], pushes: int, said: tuple[str, ...]
) -> Published | None:
    """What came of it, or `None` where nothing happened and another push makes sense."""

    def published(outcome: Outcome, message: str, then: str = "") -> Published:
        return Published(outcome, message, then, pushes, said, reading.environment)

    wanted, found = step.desired, reading.environment
    if reading.standing not in ("found", "missing"):
        then = "run the release again: it reads first, and pushes only what is missing"
        return published("unknown", f"the Hub could not be read back: {reading.why}", then)
    if _is_there(wanted, found) and found is not None:
        if _is_whole(wanted, found):
            return published("published", f"{wanted.version}, {wanted.visibility}")
        if pushed.blame == "passing":
            return None
        then = f"change it on the environment's page of the Hub, or publish a version: nox -s bump -- {wanted.name}"
        return published("failed", f"the Hub keeps {wanted.address} {found.visibility}", then)
    bump = f"nox -s bump -- {wanted.name}; only a new version gets out of this"
    if wanted.content_hash in contents:
        return published("wedged", f"version {wanted.version} is there and is not the newest", bump)
    if _shown(found) != _shown(step.found):
        there = found.version if found else "nothing"
        return published("failed", f"somebody else changed it meanwhile: the Hub has {there}", "plan again")
    return _refused(pushed, wanted, bump, published)


def _refused(pushed: Push, wanted: Desired, bump: str, published: Callable[..., Published]) -> Published | None:
    """Nothing happened: whether it is worth another push, by whose it was."""
    if pushed.blame == "passing":
        return None
    if pushed.blame == "none":
        then = "look at the environment's page of the Hub, then run the release again"
        return published("unknown", "the push ended well, and the Hub does not show it", then)
    if pushed.blame == "taken":
        if "different content" in pushed.said:
            return published("failed", f"version {wanted.version} is taken by other content", bump)
        message = "the Hub has a wheel of this content without its source, from a push that broke off"
        return published("wedged", f"{message} ({pushed.short})", bump)
    if pushed.blame == "rights":
        then = f"use a key that may write environments of {wanted.owner}"
        return published("failed", f"the key may not write here: {pushed.short}", then)
    return published("failed", pushed.short, "mend what it says, then run the release again")


def _is_there(wanted: Desired, found: HubEnvironment | None) -> bool:
    return found is not None and (found.content_hash, found.version) == (wanted.content_hash, wanted.version)


def _is_whole(wanted: Desired, found: HubEnvironment | None) -> bool:
    return found is not None and _is_there(wanted, found) and found.visibility in ("", wanted.visibility)


def _shown(found: HubEnvironment | None) -> tuple[str, str]:
    return ("", "") if found is None else (found.version, found.content_hash)
