"""The results of the exploit search, in one sentence and in full."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from envops.text.plain_data import number_text

if TYPE_CHECKING:
    from envops.facts.search import Search

_ENDINGS = {
    "evaluations": "ended by their number",
    "time": "ended by the time limit",
    "found": "ended by an exploit",
}


def search_sentence(search: Search) -> str:
    """How far the search went, which bound ended it, and how many finds it made."""
    if search.ended == "skipped":
        return f"exploit search: skipped, {search.skipped}"
    finds = len(search.exploits)
    return (
        f"exploit search: {finds or 'no'} exploit{'' if finds == 1 else 's'}; {search.replies} replies in "
        f"{search.evaluations} scorings of at most {search.limit}, {_ENDINGS[search.ended]}; "
        f"{len(search.panel)} tasks, {search.lines_reached} of {search.lines_known} lines reached, "
        f"seed {search.seed}; {number_text(search.seconds)} s"
    )


def search_data(search: Search | None) -> dict[str, Any] | None:
    """Everything, every find with what it earns on the panel included."""
    return None if search is None else {part.name: getattr(search, part.name) for part in fields(search)}
