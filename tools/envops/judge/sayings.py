"""What the functions said of a conversation, looked at once where many conversations share it.

Facts share what is equal, from a worker (`observe/collected.py`) and from a file (`observe/facts_on_disk.py`): a
thousand conversations have a handful of sayings between them. Where facts share nothing, the answers are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envops.observe.facts import FunctionScore, Rollout, Score

Saying = Mapping[str, FunctionScore]
"""Function → what it said."""


def sayings(conversations: Iterable[Score | Rollout]) -> dict[int, Saying]:
    """What was said, by identity, in the order it first was."""
    return {id(each.functions): each.functions for each in conversations}


def speakers(saying: Saying) -> set[str]:
    """The functions that gave a number."""
    return {name for name, said in saying.items() if said.score is not None}
