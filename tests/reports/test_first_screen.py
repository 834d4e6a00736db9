"""The first screen: the verdict, what to do next and what ignoring it costs, in the same order in every report."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from envops.reports.comment import conversation
from envops.reports.first_screen import LONGEST, first_screen
from envops.reports.html.page import render_page
from envops.reports.json_report import report_data
from envops.reports.markdown import render_markdown
from envops.reports.terminal import render_text
from envops.reports.written import write_reports
from envops.rules.engine import all_rules
from envops.rules.result import ValidationResult
from envops.text.plain_data import plain_data
from sample_results import BROKEN, FAILING, MISSED_GOLD, hostile, interrupted, mistaken, mixed, passing


def of_terminal(result: ValidationResult) -> str:
    return render_text(result, width=140)


def of_page(result: ValidationResult) -> str:
    page = render_page(plain_data(report_data(result)))
    hero = page.partition('<div class="hero')[2].partition("</div>")[0]
    return html.unescape(re.sub(r"<[^>]+>", "", hero))


def of_comment(result: ValidationResult) -> str:
    head = render_markdown(result).partition("\n| ")[0]
    return re.sub(r"<!-- -->|\\(?=[_*`])", "", head)


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("rendered", [of_terminal, of_page, of_comment], ids=["terminal", "page", "comment"])
@pytest.mark.parametrize("made", [mixed, mistaken, interrupted, passing])
def test_reports_show_the_first_screen_in_the_same_order(
    rendered: Callable[[ValidationResult], str], made: Callable[[], ValidationResult]
) -> None:
    result = made()
    text, screen = one_line(rendered(result)), first_screen(result)
    for part in (result.verdict, screen.verdict, screen.command, screen.advice, screen.cost):
        before, found, text = text.partition(one_line(part)) if part else ("", "nothing", text)
        assert found, (part, before)


def test_job_summary_and_comment_begin_with_the_same_screen(tmp_path: Path) -> None:
    write_reports(mixed(), tmp_path)
    summary = (tmp_path / "validate.md").read_text("utf-8")
    comment = conversation(tmp_path, 60_000, "https://example.org/run")
    assert summary.partition("\n| ")[0] == comment.partition("\n| ")[0]
    assert first_screen(mixed()).command in summary.partition("\n| ")[0]


def test_terminal_of_one_failure_does_not_repeat_its_fix() -> None:
    text = render_text(ValidationResult("fail", (FAILING,)), width=140)
    assert text.count(MISSED_GOLD.fix) == 1
    assert f"if ignored {all_rules()['RWD001'].why}" in text


def test_first_screen_of_a_failure_has_fix_and_reason_of_its_rule() -> None:
    screen = first_screen(mixed())
    assert screen.advice == "RWD001 in reverse-text: Compare the parsed answer as a number, not as text."
    assert screen.cost == f"{all_rules()['RWD001'].why} reverse-text and word-sort cannot be published."


def test_first_screen_of_an_infrastructure_failure_asks_to_run_again() -> None:
    screen = first_screen(ValidationResult("error", (BROKEN,)))
    assert screen.advice == "word-sort was not judged: its report has the failure."
    assert screen.cost == "word-sort cannot be published."
    assert screen.command.endswith("validate -- word-sort")


def test_first_screen_of_declarations_names_the_problem_that_its_command_fixes() -> None:
    screen = first_screen(mistaken())
    assert screen.command.endswith("lock -- gsm8k")
    assert screen.advice == "environments/gsm8k/requirements.lock: does not match pyproject.toml"
    assert screen.cost == "Nothing was validated."


def test_first_screen_of_an_interruption_counts_what_has_no_verdict() -> None:
    assert first_screen(interrupted()).cost == "word-sort has no verdict."
    many = replace(interrupted(), unfinished=("a", "b", "c", "d"))
    assert first_screen(many).cost == "4 environments have no verdict."


def test_first_screen_of_a_pass_is_its_verdict() -> None:
    screen = first_screen(passing())
    assert (screen.command, screen.advice, screen.cost) == ("", "", "")


@pytest.mark.parametrize("fix", ["word " * 500, "A sentence. " * 200, "x" * 5_000])
def test_first_screen_long_fix_is_cut(fix: str) -> None:
    failing = replace(FAILING, findings=(replace(MISSED_GOLD, fix=fix),))
    advice = first_screen(ValidationResult("fail", (failing,))).advice
    assert len(advice) <= LONGEST + len("RWD001 in reverse-text: ")
    assert advice.endswith((".", "…"))


def test_first_screen_hostile_text_stays_text_in_the_comment() -> None:
    head = render_markdown(hostile()).partition("\n| ")[0]
    assert "<script" not in head
    assert "<img" not in head
