"""Which environments a probe is for, as far as can be said before anything is played."""

from __future__ import annotations

from envops.facts.observed import Description

SMALLER = "Give arguments that make the tasks smaller (`probe: {args: …}` in registry.yaml, or --args)"
INSTEAD = (
    "train a small real model on it (a run with `backend: trl`, docs/training.md), which takes turns and tools; "
    "`nox -s distribution` says whether its rewards leave something to learn"
)


class NotForAProbe(ValueError):
    """The environment asks for more than a tiny model can say."""


def speaks_once(about: Description) -> None:
    """A probe's model has words for one reply: none for calls, and none for what it would be answered.

    Raises `NotForAProbe` where the environment has tools or answers back.
    """
    if about.tools:
        raise NotForAProbe(f"it has tools ({', '.join(about.tools)}), and a tiny model calls none. Instead: {INSTEAD}")
    if about.conversational:
        raise NotForAProbe(f"it answers back, and a tiny model speaks once. Instead: {INSTEAD}")
