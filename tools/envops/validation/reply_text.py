"""One reply and what an environment says of it, as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from envops.facts.reward_numbers import number
from envops.reports.page import Page, TableColumn
from envops.rules.evidence import of_functions, reply_text
from envops.text.plain_data import plain_data

if TYPE_CHECKING:
    from envops.repository.package import Package
    from envops.validation.reply import Replied


def render_json(package: Package, replied: Replied) -> str:
    """Everything as data."""
    data = {
        "version": 1,
        "environment": package.name,
        "package_version": package.version,
        "digest": package.digest,
        "task": {
            "index": replied.task.index,
            "prompt": replied.task.prompt,
            "answer": replied.task.answer,
            "data": replied.task.data,
        },
        "completion": replied.completion,
        "stop": replied.stop,
        "reward": replied.reward,
        "functions": of_functions(replied.functions),
        "failures": replied.failures,
        "failure": replied.failure,
        "extracted": replied.extracted,
    }
    return json.dumps(plain_data(data), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def render_text(package: Package, replied: Replied, *, width: int, colour: bool) -> str:
    """The task, the reply, what was read out of it, each function with its weight, and the total."""
    page = Page(width=width, colour=colour)
    page.line((package.name, "bold"), f"  {package.version}  task {replied.task.index}")
    page.blank()
    page.quote("prompt", reply_text(replied.task.prompt), indent=2)
    page.quote("gold", _shown(replied.task.answer), indent=2)
    played = len(replied.completion) != 1
    page.quote("played" if played else "reply", reply_text(replied.completion) or "(empty)", indent=2)
    if replied.stop:
        page.field("ended by", replied.stop, indent=2)
    page.blank()
    for one in replied.extracted:
        by = "envops finds" if one.by == "envops" else one.by
        page.quote(by, f"raised {one.error}" if one.error else _shown(one.value), indent=2)
    page.blank()
    columns = [
        TableColumn("function", shrinking=True),
        *(TableColumn(name, right=True) for name in ("score", "weight", "adds")),
    ]
    page.table(columns, _rows(replied))
    page.blank()
    for failure in replied.failures:
        where = f" at {failure.failure.place.file}:{failure.failure.place.line}" if failure.failure.place else ""
        said = f"{failure.failure.type}: {failure.failure.message}{where}"
        page.paragraph((f"{failure.function} gave no number:", "bold red"), said, indent=2, hanging=4)
    if replied.failure is not None:
        said = f"{replied.failure.type}: {replied.failure.message}"
        page.paragraph(("scoring failed:", "bold red"), said, indent=2, hanging=4)
    page.line(("reward", "bold"), f"  {number(replied.reward)}")
    return page.text()


def _rows(replied: Replied) -> list[list[tuple[str, str]]]:
    """Functions that count first, metrics after them."""
    ordered = sorted(replied.functions.items(), key=lambda item: item[1].kind == "metric")
    rows = []
    for name, said in ordered:
        metric = said.kind == "metric"
        adds = "metric" if metric else number(None if said.score is None else said.score * said.weight)
        rows.append(
            [
                (name, ""),
                (number(said.score), "bold red" if said.score is None else ""),
                ("–" if metric else number(said.weight), ""),
                (adds, "dim" if metric else ""),
            ]
        )
    return rows


def _shown(value: Any) -> str:
    if value is None:
        return "(nothing)"
    if isinstance(value, str):
        return value or "(empty)"
    return json.dumps(plain_data(value), ensure_ascii=False)
