"""The reward diff as people and machines read it: terminal text, Markdown, JSON.

The file may come from a job that ran untrusted code, so its size and every value are checked.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from envwright.declarations.problem import DeclarationError, Problem
from envwright.facts.observed import adapter
from envwright.facts.reward_numbers import number
from envwright.reports.page import Page, TableColumn
from envwright.rules.evidence import of_functions, reply_text
from envwright.text.markdown import code_span, fenced, prose, table_cell
from envwright.text.plain_data import plain_data
from envwright.text.visible_text import on_one_line, shortened

if TYPE_CHECKING:
    from envwright.facts.observed import Failure
    from envwright.rules.engine import Finding, Verdict
    from envwright.statistics.reward_comparison import (
        ComparedVersion,
        PromptDifference,
        RewardComparison,
        ScoredReply,
        Scoring,
    )

FORMAT_VERSION = 1
IN_FULL = 12
OF_EACH = 2
"""The most changed replies shown whole, in all and of one policy; the others get a line each."""
MOST_LINES = 300
MOST_PROMPTS = 3
LIMIT_BYTES = 900_000
"""GitHub refuses summaries over 1 MiB."""
_STYLES: dict[str, str] = {"pass": "green", "fail": "bold red", "inconclusive": "yellow", "error": "bold magenta"}

Status = Literal["compared", "unchanged", "new", "failed"]
FILE = "reward-diff.json"
LARGEST = 20_000_000
"""The most bytes of a file that is read."""
MOST_ROWS = 30
"""Rows of the table; the most changed come first."""


@dataclass(frozen=True)
class EnvironmentDiff:
    """The comparison of one environment with its base."""

    name: str
    verdict: Verdict
    status: Status
    reason: str
    comparison: RewardComparison | None = None
    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class DiffResult:
    """One run of `envwright rewards diff`."""

    base: str
    verdict: Verdict
    environments: tuple[EnvironmentDiff, ...]
    tool_version: str = ""


def render_json(result: DiffResult) -> str:
    """The whole report, with every changed reply."""
    data = {
        "version": FORMAT_VERSION,
        "tool": result.tool_version,
        "base": result.base,
        "verdict": result.verdict,
        "environments": [_environment_data(environment) for environment in result.environments],
    }
    return json.dumps(plain_data(data), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _environment_data(one: EnvironmentDiff) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": one.name,
        "verdict": one.verdict,
        "status": one.status,
        "reason": one.reason,
        "seconds": round(one.seconds, 3),
        "failure": one.failure,
        "findings": [
            {"rule": finding.rule, "severity": finding.severity, "message": finding.message, "fix": finding.fix}
            | {"inconclusive": finding.inconclusive, "ignored": finding.ignored, "reason": finding.reason}
            for finding in one.findings
        ],
    }
    return data | (_comparison_data(one.comparison) if one.comparison else {})


def _comparison_data(comparison: RewardComparison) -> dict[str, Any]:
    return {
        "base": _version_data(comparison.versions.before),
        "head": _version_data(comparison.versions.after),
        "version_raised": None if comparison.is_port else comparison.bumped,
        "replies": len(comparison.replies),
        "replies_without_counterpart": comparison.unmatched_replies,
        "replies_left_out": comparison.left_out,
        "tasks": {
            "matched": comparison.matched,
            "only_base": comparison.unmatched_tasks.before,
            "only_head": comparison.unmatched_tasks.after,
        },
        "functions": {
            "only_base": comparison.own_functions.before,
            "only_head": comparison.own_functions.after,
            "weights": comparison.weights,
        },
        "said_by": [
            {"policy": name, "replies": replies, "changed": changed, "mean_base": before, "mean_head": after}
            for name, replies, changed, before, after in comparison.by_speaker()
        ],
        "prompts": [
            {
                "base_task": prompt.tasks.before,
                "head_task": prompt.tasks.after,
                "base": prompt.prompts.before,
                "head": prompt.prompts.after,
            }
            for prompt in comparison.prompts
        ],
        "changed": [
            {
                "policy": reply.said_by,
                "task_base": reply.tasks.before,
                "task_head": reply.tasks.after,
                "reply": reply_text(reply.completion),
                "base": _scoring_data(reply.scores.before),
                "head": _scoring_data(reply.scores.after),
            }
            for reply in comparison.changed
        ],
    }


def _version_data(version: ComparedVersion) -> dict[str, Any]:
    return {key: getattr(version, key) for key in ("label", "name", "version", "generation", "digest", "args")}


def _scoring_data(scoring: Scoring) -> dict[str, Any]:
    return {"reward": scoring.reward, "functions": of_functions(scoring.functions), "problem": scoring.problem}


def render_text(result: DiffResult, *, width: int = 100, colour: bool = False) -> str:
    """The report for the terminal: every changed reply, the first of them whole."""
    page = Page(width=width, colour=colour)
    for environment in result.environments:
        page.line(
            (environment.name, "bold"),
            "  ",
            (environment.verdict, _STYLES[environment.verdict]),
            "  ",
            (environment.reason, ""),
        )
        if environment.failure is not None and environment.failure.traceback.strip():
            page.quote("traceback", "\n".join(environment.failure.traceback.strip().split("\n")[-8:]), indent=2)
        if environment.comparison is not None:
            _comparison_text(page, environment.comparison)
        for finding in environment.findings:
            style = "dim" if finding.ignored else ("bold red" if finding.severity == "error" else "cyan")
            page.paragraph((finding.rule, style), finding.message, indent=2, hanging=9)
            page.field("ignored" if finding.ignored else "fix", finding.reason or finding.fix, indent=4)
        page.blank()
    page.line((f"{result.verdict}:", _STYLES[result.verdict]), f" compared with {result.base}")
    return page.text()


def _comparison_text(page: Page, comparison: RewardComparison) -> None:
    for label, text in _summary(comparison):
        page.field(label, text, indent=2)
    rows = [
        [(name, ""), (str(replies), ""), (str(changed), "bold red" if changed else "dim"), (before, ""), (after, "")]
        for name, replies, changed, before, after in _table(comparison)
    ]
    if rows:
        page.blank()
        titles = ("source", "replies", "changed", "mean at base", "mean here")
        page.table([TableColumn(title, right=place > 0) for place, title in enumerate(titles)], rows)
        page.blank()
    for change in comparison.prompts[:MOST_PROMPTS]:
        page.quote("prompt", _prompt_diff(change), indent=2)
    if len(comparison.prompts) > MOST_PROMPTS:
        page.line(f"  {len(comparison.prompts) - MOST_PROMPTS} more prompts differ; all are in reward-diff.json")
    whole, short = _whole_and_short(comparison)
    for reply in whole:
        page.line((_headline(reply), "bold"), indent=2)
        page.quote("reply", reply_text(reply.completion), indent=4)
        if functions := _functions(reply):
            page.field("functions", functions, indent=4)
        page.blank()
    for reply in short[:MOST_LINES]:
        page.line(f"{_headline(reply)}  {_short(reply)}", indent=2)
    if short:
        page.blank()
    more = len(short) - MOST_LINES
    if more > 0:
        page.line(f"{more:,} more replies changed, all in reward-diff.json", indent=2)


def _whole_and_short(comparison: RewardComparison) -> tuple[list[ScoredReply], list[ScoredReply]]:
    """The changed replies to show whole, a few of each policy, and the others."""
    shown: Counter[str] = Counter()
    whole: list[ScoredReply] = []
    short: list[ScoredReply] = []
    for reply in comparison.changed:
        shown[reply.said_by] += 1
        (whole if shown[reply.said_by] <= OF_EACH and len(whole) < IN_FULL else short).append(reply)
    return whole, short


def _summary(comparison: RewardComparison) -> Iterator[tuple[str, str]]:
    base, head = comparison.versions
    yield "base", f"{base.name} {base.version} ({base.generation}) at {base.label}"
    yield "here", f"{head.name} {head.version} ({head.generation})"
    changed = f"{len(comparison.changed):,} of {len(comparison.replies):,} replies scored differently"
    if dict(base.args) != dict(head.args):
        yield "arguments", f"{json.dumps(dict(base.args), default=str)} → {json.dumps(dict(head.args), default=str)}"
    yield "replies", f"{changed}, on {comparison.matched:,} tasks that both have"
    only_there, only_here = comparison.unmatched_tasks.each(len)
    if only_there or only_here:
        yield (
            "tasks",
            f"{only_there:,} only at the base, {only_here:,} only here; "
            f"{comparison.unmatched_replies:,} replies to them could not be compared",
        )
    if comparison.left_out:
        yield "left out", f"{comparison.left_out:,} replies above the limit of the corpus"
    if comparison.prompts:
        yield "prompts", f"of {len(comparison.prompts):,} tasks differ, byte for byte"
    for label, names in (
        ("only there", comparison.own_functions.before),
        ("only here", comparison.own_functions.after),
    ):
        if names:
            yield label, f"functions {', '.join(names)}"
    for name, (before, after) in comparison.weights.items():
        yield "weight", f"{name} {number(before)} → {number(after)}"


def _table(comparison: RewardComparison) -> list[tuple[str, int, int, str, str]]:
    """One row for each policy; all cases share one."""
    cases = [one for one in comparison.by_speaker() if one[0].startswith("case ")]
    rows = [
        (name, replies, changed, _mean(before), _mean(after))
        for name, replies, changed, before, after in comparison.by_speaker()
        if not name.startswith("case ")
    ]
    if cases:
        rows.append(("cases", sum(case[1] for case in cases), sum(case[2] for case in cases), "", ""))
    return rows


def _mean(mean: float | None) -> str:
    return "none" if mean is None else f"{mean:.3f}"


def _headline(reply: ScoredReply) -> str:
    there = "" if reply.tasks.before == reply.tasks.after else f" ({reply.tasks.before} at the base)"
    change = f"{number(reply.scores.before.reward)} → {number(reply.scores.after.reward)}"
    return f"{reply.said_by}, task {reply.tasks.after}{there}: {change}"


def _lines(reply: ScoredReply) -> Iterator[tuple[str, str, str]]:
    """The changes below the total, with reasons for missing values."""
    before, after = reply.scores
    for name in reply.changed_functions:
        yield name, number(before.functions[name].score), number(after.functions[name].score)
    if before.problem or after.problem:
        yield "missing", before.problem or "no problem", after.problem or "no problem"


def _short(reply: ScoredReply) -> str:
    text = on_one_line(reply_text(reply.completion))
    return f"{text if len(text) <= 60 else f'{text[:60]}…'}  {_functions(reply)}"


def _functions(reply: ScoredReply) -> str:
    return ", ".join(f"{name} {before} → {after}" for name, before, after in _lines(reply))


def _prompt_diff(change: PromptDifference) -> str:
    before, after = change.prompts.each(lambda prompt: prompt.split("\n"))
    names = (f"task {change.tasks.before} at the base", f"task {change.tasks.after} here")
    if change.prompts.before.split() != change.prompts.after.split():
        return "\n".join(difflib.unified_diff(before, after, *names, lineterm="", n=1))
    pairs = [(one, other) for one, other in zip_longest(before, after, fillvalue="") if one != other]
    lines = [line for one, other in pairs for line in (f"-{one!r}", f"+{other!r}")]
    return "\n".join([f"--- {names[0]}", f"+++ {names[1]}, where only whitespace differs", *lines])


def render_markdown(result: DiffResult, limit: int = LIMIT_BYTES) -> str:
    """The report for a pull request; omissions are noted, and are in the JSON."""
    parts = [f"## Reward diff: {result.verdict}\n\nCompared with {code_span(result.base)}.\n"]
    room = limit - len(parts[0].encode()) - 200
    for part in (part for one in result.environments for part in _markdown(one)):
        room -= len(part.encode())
        if room < 0:
            parts.append("\n> This page was cut to fit GitHub's size limit; everything is in `reward-diff.json`.\n")
            break
        parts.append(part)
    return "".join(parts)


def _markdown(one: EnvironmentDiff) -> Iterator[str]:
    yield f"\n### {code_span(one.name)} {one.verdict}\n\n{prose(one.reason)}\n"
    for finding in one.findings:
        state = f"ignored: {prose(finding.reason or '')}" if finding.ignored else f"**Fix:** {prose(finding.fix)}"
        yield f"\n- **{prose(finding.rule)}** {prose(finding.message)}. {state}\n"
    comparison = one.comparison
    if comparison is None:
        return
    yield "\n" + "".join(f"- {prose(label)}: {prose(text)}\n" for label, text in _summary(comparison))
    rows = "".join(
        f"| {table_cell(name)} | {replies} | {changed} | {before} | {after} |\n"
        for name, replies, changed, before, after in _table(comparison)
    )
    if rows:
        yield f"\n| source | replies | changed | mean at base | mean here |\n|---|---|---|---|---|\n{rows}"
    for change in comparison.prompts[:MOST_PROMPTS]:
        yield f"\n{fenced(shortened(_prompt_diff(change), 3_000))}"
    if comparison.changed:
        yield "\n| source | task | at base | here | functions | reply |\n|---|---|---|---|---|---|\n"
    for reply in comparison.changed:
        functions = _functions(reply) or "–"
        yield (
            f"| {table_cell(reply.said_by)} | {reply.tasks.after} | {number(reply.scores.before.reward)} | "
            f"{number(reply.scores.after.reward)} | {table_cell(functions)} | "
            f"{table_cell(shortened(reply_text(reply.completion), 200))} |\n"
        )


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
    failed = [
        environment
        for environment in environments
        if environment.verdict != "pass" and not any(each.changed for each in environment.said_by)
    ]
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
