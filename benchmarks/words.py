"""Words per environment that a person reads in a report: `python benchmarks/words.py`.

Counted in twelve made-up environments of `sample_reports.py`: on the terminal, in the comment as GitHub shows it first
(details closed, those of errors open), and on the first screen of the page, without its table.
"""

from __future__ import annotations

import html
import re

from envops.reports.html.page import render_page
from envops.reports.json_report import report_data
from envops.reports.markdown import render_markdown
from envops.reports.terminal import render_text
from envops.rules.result import ValidationResult
from envops.text.plain_data import plain_data
from sample_reports import sample_report

ENVIRONMENTS = 12
_CLOSED = re.compile(r"<details>(<summary>.*?</summary>).*?</details>", re.DOTALL)


def main() -> None:
    """Print a row for each form, of a failing environment alone, a passing one alone, and all."""
    result = sample_report(ENVIRONMENTS, ENVIRONMENTS * 128)
    failing = next(one for one in result.environments if one.verdict == "fail")
    passing = next(one for one in result.environments if one.verdict == "pass")
    runs = (
        ("one that fails", ValidationResult("fail", (failing,), tool_version="0.1.0")),
        ("one that passes", ValidationResult("pass", (passing,), tool_version="0.1.0")),
        ("twelve, each", result),
    )
    print("| | terminal | comment | first screen of the page |\n|---|---|---|---|")
    for name, run in runs:
        counted = [round(count / len(run.environments)) for count in _counts(run)]
        print(f"| {name} | {' | '.join(map(str, counted))} |")


def _counts(run: ValidationResult) -> tuple[int, ...]:
    page = render_page(plain_data(report_data(run)))
    hero = page.partition('<div class="hero')[2].partition("</div>")[0]
    comment = _CLOSED.sub(r"\1", render_markdown(run))
    return tuple(_words(text) for text in (render_text(run, width=100), _text(comment), _text(hero)))


def _text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>|\]\(\S+\)", " ", markup))


def _words(text: str) -> int:
    return len(re.findall(r"\w[\w.,'/:-]*", text))


if __name__ == "__main__":
    main()
