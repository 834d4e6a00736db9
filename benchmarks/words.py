"""Words per environment that a person reads first in each report: `python benchmarks/words.py [--before COMMIT]`.

Counted in made-up environments of `sample_reports.py`: on the terminal; in the first screen of the page above the
table, and in all of its overview; and in the comment and the job summary as GitHub shows them first (details closed,
those of errors open). With `--before`, the same count with the tools and made-up environments of an earlier commit.
"""

from __future__ import annotations

import argparse
import html
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from envwright.reports.comment import conversation
from envwright.reports.html.page import render_page
from envwright.reports.markdown import render_markdown
from envwright.reports.result import EnvironmentResult, ValidationResult
from envwright.reports.terminal import render_text
from envwright.reports.written import write_reports
from sample_reports import sample_environment

ROLLOUTS = 128
_CLOSED = re.compile(r"<details>(<summary>.*?</summary>).*?</details>", re.DOTALL)
_CLOSED_ON_PAGE = re.compile(r"<details[^>]*>(<summary>.*?</summary>).*?</details>", re.DOTALL)
_UNSEEN = re.compile(r'<(\w+)[^>]*(?: class="[^"]*unseen[^"]*"| hidden)[^>]*>.*?</\1>', re.DOTALL)


def main() -> None:
    """Print a row for each run: words per environment in each report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", metavar="COMMIT", help="count those of an earlier commit")
    options = parser.parse_args()
    if options.before:
        _of_commit(options.before)
        return
    environments = [sample_environment(number, ROLLOUTS) for number in range(16)]
    failing = next(one for one in environments if one.verdict == "fail")
    passing = [one for one in environments if one.verdict == "pass"]
    runs = {
        "one that fails": (failing,),
        "one that passes": tuple(passing[:1]),
        "ten, one of which fails": (*passing[:3], failing, *passing[3:9]),
        "twelve, three of which do not pass": tuple(environments[:12]),
    }
    print("| words per environment | terminal | page | whole overview | comment | job summary |")
    print("|---|---|---|---|---|---|")
    for name, chosen in runs.items():
        counted = [f"{count / len(chosen):.1f}".removesuffix(".0") for count in _counts(chosen)]
        print(f"| {name} | {' | '.join(counted)} |")


def _counts(environments: tuple[EnvironmentResult, ...]) -> tuple[int, ...]:
    verdict = "fail" if any(one.verdict == "fail" for one in environments) else "pass"
    run = ValidationResult(verdict, environments, seconds=812.4, tool="0.1.0")
    page = render_page(run)
    first = page.partition('<div class="hero')[2].partition(">")[2].partition("</div>")[0]
    overview = page.partition('<section id="overview"')[2].partition(">")[2].partition('<section id="detail"')[0]
    with tempfile.TemporaryDirectory() as folder:
        write_reports(run, Path(folder))
        comment = conversation(Path(folder), 60_000, "https://example.org/run")
    texts = (
        render_text(run, width=100),
        _text(first),
        _text(_CLOSED_ON_PAGE.sub(r"\1", _UNSEEN.sub(" ", overview))),
        _text(_CLOSED.sub(r"\1", comment)),
        _text(_CLOSED.sub(r"\1", render_markdown(run))),
    )
    return tuple(len(re.findall(r"\w[\w.,'/:-]*", text)) for text in texts)


def _text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>|\]\(\S+\)", " ", markup))


def _of_commit(commit: str) -> None:
    root = Path(__file__).parents[1]
    archive = subprocess.run(
        ("git", "archive", commit, "tools", "benchmarks"), cwd=root, check=True, capture_output=True
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(folder, filter="data")
        script = Path(folder, "benchmarks", Path(__file__).name)
        shutil.copy(__file__, script)
        subprocess.run(
            (sys.executable, str(script)), check=True, env={**os.environ, "PYTHONPATH": str(Path(folder, "tools"))}
        )


if __name__ == "__main__":
    main()
