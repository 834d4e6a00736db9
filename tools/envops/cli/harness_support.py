"""Whether a harness can be seated in the environments that were named."""

from __future__ import annotations

from collections.abc import Iterable

from envops.repository.repository import Repository


class NotSeated(Exception):
    """The message says in which environments there is no seat."""


def check_seat(harness: str | None, repository: Repository, names: Iterable[str]) -> None:
    """Raise `NotSeated` where a harness is asked for and an environment is of v0, which has none."""
    without = [name for name in names if repository.packages[name].generation == "v0"]
    if harness is not None and without:
        raise NotSeated(f"--harness is of v1, and {', '.join(without)} is of v0: its own code plays")
