"""What a reward diff changed, policy by policy: read from `reward-diff.json`, for the comment and its picture.

The file may come from a job that ran untrusted code, so its size and every value are checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from envwright.declarations.problem import DeclarationError, Problem
from envwright.facts.observed import adapter
from envwright.facts.reward_numbers import number
from envwright.text.markdown import code_span, prose, table_cell
from envwright.text.visible_text import on_one_line

FILE = "reward-diff.json"
LARGEST = 20_000_000
"""The most bytes of a file that is read."""
MOST_ROWS = 30
"""Rows of the table; the most changed come first."""


@dataclass(frozen=True)
class PolicyRewards:
    """The rewards of one policy's replies, by the code of the base and by this code."""

    __pydantic_config__ = ConfigDict(extra="ignore", allow_inf_nan=False)

    policy: str
    replies: int = Field(ge=0)
    changed: int = Field(ge=0)
    mean_base: float | None = None
    mean_head: float | None = None


@dataclass(frozen=True)
class EnvironmentRewards:
    """The rewards of one environment's policies."""

    __pydantic_config__ = ConfigDict(extra="ignore")

    name: str
    verdict: str
    reason: str
    said_by: tuple[PolicyRewards, ...] = ()


def read_changed_rewards(path: Path) -> tuple[EnvironmentRewards, ...]:
    """The environments of a reward diff; none if there is no such file.

    Raises `DeclarationError` if the file was not written by `envwright rewards diff`.
    """
    return changed_rewards(_read(path)) if path.exists() or path.is_symlink() else ()


def merged_diffs(files: Iterable[Path]) -> dict[str, Any] | None:
    """One report of those of several shards; `None` if there is none. Raises `DeclarationError` like reading one."""
    parts = [_read(file) for file in files]
    environments = sorted((one for part in parts for one in part["environments"]), key=lambda one: str(one["name"]))
    return {**parts[0], "environments": environments} if parts else None


def changed_rewards(data: Mapping[str, Any]) -> tuple[EnvironmentRewards, ...]:
    """The environments of a report of `envwright rewards diff`. Raises `ValueError` or `KeyError` for another shape."""
    found: tuple[EnvironmentRewards, ...] = adapter(tuple[EnvironmentRewards, ...]).validate_python(
        data["environments"], strict=False
    )
    return found


def _read(path: Path) -> dict[str, Any]:
    """The data of a report, whose shape is checked."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            raise ValueError
        data: dict[str, Any] = json.loads(path.read_bytes())
        changed_rewards(data)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        problem = Problem(str(path), None, "was not written by `envwright rewards diff`")
        raise DeclarationError([problem]) from None
    return data


def changed_policies(environments: Sequence[EnvironmentRewards]) -> list[tuple[EnvironmentRewards, PolicyRewards]]:
    """The policies with changed rewards, the most changed replies first."""
    rows = [(one, policy) for one in environments for policy in one.said_by if policy.changed]
    return sorted(rows, key=lambda row: (-row[1].changed, row[0].name, row[1].policy))


def render_changes(environments: Sequence[EnvironmentRewards]) -> Iterator[str]:
    """The changes as a section of Markdown; nothing if no reward changed and all could be compared."""
    rows = changed_policies(environments)
    failed = [one for one in environments if one.verdict != "pass" and not any(each.changed for each in one.said_by)]
    if not rows and not failed:
        return
    yield "### Changed rewards\n\n"
    yield from (f"- {code_span(one.name[:100])}: {prose(on_one_line(one.reason)[:300])}\n" for one in failed)
    if not rows:
        return
    yield "\n| environment | source | changed | mean at base | mean here |\n|---|---|---|---|---|\n"
    for one, policy in rows[:MOST_ROWS]:
        means = f"{number(policy.mean_base)} | {number(policy.mean_head)}"
        changed = f"{policy.changed:,} of {policy.replies:,}"
        yield f"| {table_cell(one.name[:100])} | {table_cell(policy.policy[:100])} | {changed} | {means} |\n"
    if len(rows) > MOST_ROWS:
        yield f"\nand {len(rows) - MOST_ROWS} more sources\n"
    yield "\nEach reply is in `reward-diff.json` of the workflow run.\n"
