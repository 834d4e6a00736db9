"""The summary of a dataset, and the environment that fits it, for people and for programs."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from envwright.authoring.dataset.profile import DatasetProfile, SplitProfile
from envwright.authoring.dataset.recognition import Recognised
from envwright.text.plain_data import counted

SAMPLE_ROWS = 3
LONGEST = 160
"""Characters of a row or a value that are shown."""


def as_json(profile: DatasetProfile, found: Recognised | None, advice: DatasetAdvice | None, problem: str) -> str:
    """The summary as JSON."""
    data: dict[str, Any] = {
        "source": profile.name,
        "config": profile.config,
        "revision": profile.revision,
        "splits": [
            {
                "name": split.name,
                "rows": split.rows,
                "complete": split.complete,
                "repeated_rows": split.repeated,
                "columns": [vars(column) for column in split.columns],
                "sample": [{"row": number, "data": row} for number, row in split.sample[:SAMPLE_ROWS]],
            }
            for split in profile.splits
        ],
        "problem": problem,
    }
    if found is not None:
        roles = found.layout.roles
        data["overlap"] = [
            {"splits": list(pair), "questions": count} for pair, count in profile.overlap(roles.question).items()
        ]
        data["columns"] = {
            "question": roles.question,
            "answer": roles.answer,
            "context": roles.context,
            "choices": [*roles.choices, *roles.wrong_choices],
            "tests": roles.tests,
            "conversation": roles.conversation,
            "tools": roles.tools,
        }
        data["answer"] = {
            "format": found.layout.answer,
            "task": found.task,
            "behind": found.layout.mark,
            "vocabulary": list(found.layout.vocabulary),
            "tool_calls": found.tool_calls,
            "rows": found.rows,
            "explained": found.rows - found.unexplained,
            "confidence": {"share": found.share.value, "low": found.share.low, "high": found.share.high},
            "shares": dict(found.shares),
            "against": [{"row": one.number, "says": one.answer, "reason": one.reason} for one in found.against],
        }
    if advice is not None:
        data["recommendation"] = vars(advice)
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


def print_dataset(
    profile: DatasetProfile, found: Recognised | None, advice: DatasetAdvice | None, problem: str
) -> None:
    """Print the summary as tables and a few lines."""
    console = Console(highlight=False, soft_wrap=False)
    named = [profile.name, profile.config, profile.revision[:12]]
    console.print(f"[bold]{escape('  '.join(part for part in named if part))}[/bold]\n")
    for split in profile.splits:
        _print_split(console, split)
    if found is None or advice is None:
        console.print(f"[bold]no answers recognised[/bold]: {escape(problem)}")
        return
    for (one, other), count in profile.overlap(found.layout.roles.question).items():
        message = f"{counted(count, 'question')} of {one} are also in {other}"
        console.print(f"[bold red]{'overlap':<12}[/bold red]{escape(message)}")
    _print_answers(console, found)
    for name, value in (("kind", advice.kind), ("caution", advice.caution), ("next", advice.command)):
        if value:
            console.print(f"[bold]{name:<12}[/bold]{escape(value)}", soft_wrap=True)


def _print_split(console: Console, split: SplitProfile) -> None:
    extent = f"{split.rows:,} rows" if split.complete else f"the first {split.rows:,} rows"
    repeated = f", {split.repeated:,} of them repeated" if split.repeated else ""
    table = Table(title=f"{split.name}: {extent}{repeated}", title_justify="left", title_style="bold", box=None)
    for heading in ("column", "types"):
        table.add_column(heading, overflow="fold")
    for heading in ("missing", "distinct", "length"):
        table.add_column(heading, justify="right")
    for column in split.columns:
        mixed = len(column.types) > 1
        types = ", ".join(f"{name} {count:,}" if mixed else name for name, count in column.types.items())
        length = f"{column.shortest}–{column.typical}–{column.longest}"
        table.add_row(escape(column.name), types, f"{column.missing:,}", f"{column.distinct:,}", length)
    console.print(table)
    for number, row in split.sample[:SAMPLE_ROWS]:
        text = _short(json.dumps(row, ensure_ascii=False, default=str))
        console.print(f"  [dim]row {number}[/dim]  {escape(text)}", soft_wrap=True)
    console.print()


def _print_answers(console: Console, found: Recognised) -> None:
    roles = found.layout.roles
    share = found.share
    sure = f"{found.rows - found.unexplained} of {found.rows} rows ({share.low:.0%} to {share.high:.0%}, 95 % sure)"
    rows = [
        ("answers", f"{found.task}  [{found.layout.answer}]"),
        ("confidence", sure),
        ("question", roles.conversation or roles.question),
        ("answer", roles.conversation or roles.answer),
    ]
    rows += [("context", roles.context)] if roles.context else []
    rows += [("labels", ", ".join(found.layout.vocabulary))] if found.layout.answer == "label" else []
    shares = {name: share for name, share in found.shares.items() if share >= 0.05 and name != found.layout.answer}
    others = [f"{name} {share:.0%}" for name, share in shares.items()]
    rows += [("could be", ", ".join(others))] if others else []
    for name, value in rows:
        console.print(f"[bold]{name:<12}[/bold]{escape(value)}", soft_wrap=True)
    for one in found.against:
        message = f"row {one.number} {one.reason}"
        console.print(f"[bold]{'against':<12}[/bold]{escape(_short(message))}", soft_wrap=True)
    if found.unexplained > len(found.against):
        console.print(f"{'':<12}{found.unexplained - len(found.against)} more")
    console.print()


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


@dataclass(frozen=True)
class DatasetAdvice:
    """The advised environment."""

    kind: str
    command: str
    caution: str = ""


def recommended_kind(found: Recognised) -> Literal["single-turn", "judge", "code"]:
    """The kind of environment: a judge only for texts that are too long to compare."""
    if found.layout.answer == "code":
        return "code" if found.layout.roles.tests else "judge"
    return "judge" if found.long_text else "single-turn"


def advice_on(found: Recognised, source: str, *, hub: bool = False, options: str = "") -> DatasetAdvice:
    """The advice for a recognised dataset; `source` is its name on the command line."""
    kind = recommended_kind(found)
    caution = ""
    if kind == "judge":
        caution = "a judge costs money and errs: prefer short or testable answers"
    if found.layout.answer == "choice" and not found.has_options:
        caution = "the data has no options: without them a letter can only be guessed"
    if found.layout.answer == "code" and not found.layout.roles.tests:
        caution = "there are no tests: a column of assertions would let programs be run instead of judged"
    named = shlex.quote(source)
    command = f"envwright new NAME {'--dataset' if hub else '--data'} {named}{options} --kind {kind}"
    return DatasetAdvice(kind, f"{command} --answer {found.layout.answer}", caution)
