"""The summary of a dataset, and the environment that fits it, for people and for programs."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any, Literal

from envwright.authoring.dataset.profile import DatasetProfile, SplitProfile
from envwright.authoring.dataset.recognition import Recognised
from envwright.reports.page import Page, TableColumn
from envwright.text.plain_data import counted, plain_data

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
    return json.dumps(plain_data(data), indent=2, ensure_ascii=False)


def render_dataset(
    profile: DatasetProfile,
    found: Recognised | None,
    advice: DatasetAdvice | None,
    problem: str,
    *,
    width: int,
    colour: bool,
) -> str:
    """The summary as tables and a few lines."""
    page = Page(width=width, colour=colour)
    named = [profile.name, profile.config, profile.revision[:12]]
    page.line(("  ".join(filter(None, named)), "bold"))
    page.blank()
    for split in profile.splits:
        _add_split(page, split)
    if found is None or advice is None:
        page.line(("no answers recognised", "bold"), f": {problem}")
        return page.text()
    for (one, other), count in profile.overlap(found.layout.roles.question).items():
        _add(page, "overlap", f"{counted(count, 'question')} of {one} are also in {other}", "bold red")
    _add_answers(page, found)
    for name, value in (("kind", advice.kind), ("caution", advice.caution), ("next", advice.command)):
        if value:
            _add(page, name, value)
    return page.text()


def _add(page: Page, name: str, value: str, style: str = "bold") -> None:
    page.line((f"{name:<12}", style), value)


def _add_split(page: Page, split: SplitProfile) -> None:
    extent = f"{split.rows:,} rows" if split.complete else f"the first {split.rows:,} rows"
    repeated = f", {split.repeated:,} of them repeated" if split.repeated else ""
    page.line((f"{split.name}: {extent}{repeated}", "bold"))
    rows = []
    for column in split.columns:
        mixed = len(column.types) > 1
        types = ", ".join(f"{name} {count:,}" if mixed else name for name, count in column.types.items())
        length = f"{column.shortest}–{column.typical}–{column.longest}"
        cells = (column.name, types, f"{column.missing:,}", f"{column.distinct:,}", length)
        rows.append([(cell, "") for cell in cells])
    texts = [TableColumn(title, shrinking=True) for title in ("column", "types")]
    page.table([*texts, *(TableColumn(title, right=True) for title in ("missing", "distinct", "length"))], rows)
    for number, row in split.sample[:SAMPLE_ROWS]:
        page.line((f"row {number}", "dim"), f"  {_short(json.dumps(row, ensure_ascii=False, default=str))}", indent=2)
    page.blank()


def _add_answers(page: Page, found: Recognised) -> None:
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
    rows += [("could be", ", ".join(f"{name} {share:.0%}" for name, share in shares.items()))] if shares else []
    rows += [("against", _short(f"row {one.number} {one.reason}")) for one in found.against]
    for name, value in rows:
        _add(page, name, value)
    if found.unexplained > len(found.against):
        _add(page, "", f"{found.unexplained - len(found.against)} more")
    page.blank()


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
