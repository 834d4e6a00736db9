"""The page: a template, its style and scripts, and the data of validate.json."""

from __future__ import annotations

from collections import Counter
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from envwright.reports.documentation import documentation_address
from envwright.reports.first_screen import first_screen
from envwright.reports.html.compact import PageData
from envwright.reports.html.embedding import code, policy
from envwright.reports.html.size_budget import fitted
from envwright.reports.json_report import head_data
from envwright.reports.reading import finding_of, result_of
from envwright.reports.summary import rule_lines, score_text
from envwright.rules.engine import GATES
from envwright.rules.result import DECIDING, FINDING_KINDS, finding_kind
from envwright.text.plain_data import plain_data, seconds_text
from envwright.text.visible_text import on_one_line, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from envwright.reports.run_report import RunReport
    from envwright.rules.result import ValidationResult

LIMIT_BYTES = 4_300_000
"""The most bytes of data and of the overview's rows: a page over 5 MB is slow to open on a phone, and style and scripts
take the rest."""
ROW_BYTES = 1_500
TEMPLATE = "report.html.j2"
STYLES = ("base.css", "report.css", "details.css", "pictures.css", "transcripts.css")
LIBRARIES = ("d3.min.js", "plot.umd.min.js")
TRANSCRIPTS = ("transcript.js", "transcript_list.js", "transcript_data.js")
PICTURES = ("charts.js", "pictures.js", "answers.js")
SECTIONS = ("findings.js", "source.js", "environment.js", "before.js", "run.js")
VIEWS = ("elements.js", "shared.js", *PICTURES, *SECTIONS, *TRANSCRIPTS)
"""Scripts that the site uses too."""
SCRIPTS = (*VIEWS, "overview.js", "report.js")
SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?", "error": "!"}


def render_page(
    report: dict[str, Any],
    diff: Mapping[str, Any] | None = None,
    runs: Sequence[RunReport] = (),
    unreadable: Sequence[str] = (),
    compared: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The whole page from the data of validate.json, and of the diff, runs and comparisons, if any."""
    return "".join(page_parts(result_of(report), report["environments"], diff, runs, unreadable, compared))


def page_parts(
    result: ValidationResult,
    environments: Sequence[Mapping[str, Any]],
    diff: Mapping[str, Any] | None = None,
    runs: Sequence[RunReport] = (),
    unreadable: Sequence[str] = (),
    compared: Sequence[Mapping[str, Any]] = (),
    transcripts: Iterable[tuple[str, str]] | None = None,
    *,
    heading: str = "Validation report",
) -> Iterator[str]:
    """The page in parts; `environments` is the entry of each in validate.json, and none of them is held.

    A page of one run alone, without environments, opens with the run.

    `unreadable` has the errors of reports of runs that could not be read. `transcripts` has packed transcripts by
    environment if the page is to hold them; otherwise it loads the files beside it.
    """
    shown = fitted(environments, diff, runs, LIMIT_BYTES - ROW_BYTES * len(environments), compared)
    library, script = joined("vendor", LIBRARIES), joined("assets", SCRIPTS)
    return (
        templates("envwright.reports.html")
        .get_template(TEMPLATE)
        .generate(
            policy=policy(library, script, files_beside=transcripts is None),
            style=code(joined("assets", STYLES)),
            library=code(library),
            script=code(script),
            heading=heading,
            report=plain_data(head_data(result)),
            screen=first_screen(result),
            rule_lines=rule_lines(result),
            counts=result.outline.counts,
            rows=_Rows(environments),
            unreadable=unreadable,
            shown=shown,
            gates=GATES,
            transcripts=transcripts or (),
        )
    )


class _Rows:
    """The overview, line by line."""

    def __init__(self, environments: Sequence[Mapping[str, Any]]) -> None:
        self._environments = environments

    def __len__(self) -> int:
        return len(self._environments)

    def __iter__(self) -> Iterator[PageData]:
        return map(overview_row, self._environments)


def overview_row(environment: Mapping[str, Any]) -> PageData:
    """One line of the overview, with the text that the search reads."""
    findings = [finding_of(environment["folder"], one) for one in environment["findings"]]
    kinds = Counter(finding_kind(finding) for finding in findings)
    rules = dict.fromkeys(finding.rule for finding in findings if finding_kind(finding) in DECIDING)
    mutation = environment.get("mutation") or {}
    searched = [environment["name"], environment["folder"], environment["digest"], environment["generation"] or ""]
    searched += [f"{finding.rule} {finding.message}" for finding in findings]
    return {
        "name": environment["name"],
        "version": environment["package_version"],
        "generation": environment["generation"],
        "verdict": environment["verdict"],
        "gates": environment["gates"],
        "reasons": environment["reasons"],
        "time": "cached" if environment["cached"] else seconds_text(_seconds(environment["seconds"])),
        "seconds": _seconds(environment["seconds"]),
        "cached": environment["cached"],
        "kinds": [(kind, kinds[kind]) for kind in FINDING_KINDS if kinds[kind]],
        "rules": list(rules),
        "mutation": score_text(mutation.get("score_range")),
        "noticed": (mutation.get("score_range") or [None])[0],
        "rewards": [_reward(one) for one in environment.get("distributions", []) if one["mean"]],
        "searched": shortened(on_one_line(" ".join(searched)), 600).lower(),
    }


def _reward(measured: Mapping[str, Any]) -> PageData:
    return {"policy": measured["policy"], "scripted": measured["scripted"], **measured["mean"]}


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


@cache
def templates(package: str) -> Environment:
    """The templates of a package. Everything is escaped; an undefined name is an error."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = lambda text: visible(shortened(str(text), 4_000))
    environment.filters["address"] = lambda text: quote(visible(str(text)), safe="")
    environment.globals["signs"] = SIGNS
    environment.globals["documentation"] = documentation_address()
    return environment


@cache
def joined(folder: str, names: tuple[str, ...]) -> str:
    """The tool's own files in one text."""
    parts = [(files("envwright.reports.html") / folder / name).read_text(encoding="utf-8") for name in names]
    return "\n".join(parts)
