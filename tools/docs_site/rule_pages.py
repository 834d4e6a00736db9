"""A page for each rule, from the same texts as `envwright explain`, with examples from the tests."""

from __future__ import annotations

import importlib
import sys
import textwrap
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from envwright.rules import catalogue
from envwright.rules.engine import ALL_GATES, Rule, all_rules, apply
from envwright.rules.verdict import CAUSES
from envwright.text.markdown import fenced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

MOST_PLANTED = 2


def rule_index() -> str:
    """All rules, gate by gate. Each row has the anchor that the rule has in docs/rules.md."""
    parts = [catalogue.INTRODUCTION]
    for gate in ALL_GATES:
        parts.append(f"\n## {catalogue.heading(gate)}\n\n{catalogue.QUESTIONS[gate]}\n")
        parts.append("| rule | severity | title |\n|---|---|---|")
        parts += [
            f'| <a id="{known.id.lower()}"></a>[{known.id}](rules/{known.id}.md) | {known.severity} | {known.title} |'
            for known in all_rules().values()
            if known.gate == gate
        ]
    return "\n".join(parts) + "\n"


def rule_page(known: Rule, tests: Path) -> str:
    """The page of one rule: meaning, examples, fix."""
    what, *others = (f"## {title}\n\n{text}" for title, text in catalogue.sections(known).items())
    about = f"[Rules](../rules.md#{known.id.lower()}) · {known.gate} gate · {known.severity}: {catalogue.effect(known)}"
    parts = [f"# {known.id}: {known.title}", about, what, *_examples(known, tests), *others]
    parts.append(f"## How to ignore\n\n{_ignoring(known)}")
    if awaited := [cause for cause in CAUSES if known.id in cause.consequences]:
        causes = sorted({rule for cause in awaited for rule in cause.rules})
        parts.append(f"## What to fix first\n\nIt may wait for {', '.join(map(_linked, causes))}.")
    return "\n\n".join([*parts, f"In a terminal: `envwright explain {known.id}`."]) + "\n"


def _linked(rule: str) -> str:
    return f"[{rule}]({rule}.md)"


def _ignoring(known: Rule) -> str:
    above = "runs:\n  RUN" if known.gate in ("run", "diagnosis") else "environments:\n  NAME"
    entry = f'{above}:\n    ignore:\n      {known.id}: "the reason"'
    return f"In `registry.yaml`, with a reason that every report shows:\n\n```yaml\n{entry}\n```"


def _examples(known: Rule, tests: Path) -> Iterator[str]:
    """Rewards that the tests plant for the rule to find, and a finding of one of its cases."""
    yield "## Example"
    for name, code in _planted(tests).get(known.id, [])[:MOST_PLANTED]:
        yield f"A reward that it finds (*{name}*, one of the project's planted defects):\n\n```python\n{code}\n```"
    for found in islice((one for case in _cases(tests)[known.id].fires.values() for one in apply(known, case)), 1):
        text = f"{found.rule} {found.severity}: {found.message}\nfix: {found.fix}"
        wrapped = "\n".join(textwrap.fill(line, 84, subsequent_indent="  ") for line in text.splitlines())
        yield f"A finding:\n\n{fenced(wrapped)}"


@cache
def _cases(tests: Path) -> dict[str, Any]:
    return dict(_module(tests / "rules", "rule_cases").all_cases())


@cache
def _planted(tests: Path) -> dict[str, list[tuple[str, str]]]:
    """Rule → name and code of the rewards that the tests plant for it, the shortest first."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in _module(tests / "defects", "table").DEFECTS:
        code = "\n\n".join(textwrap.dedent(part).strip() for part in (each.source, each.functions or "") if part)
        for rule in each.rules if code else ():
            found.setdefault(rule, []).append((each.name.replace("_", " "), code))
    return {rule: sorted(several, key=lambda one: len(one[1])) for rule, several in found.items()}


def _module(folder: Path, name: str) -> ModuleType:
    """A module of the tests, which import each other by their bare names, some only when they are called."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module(name)
