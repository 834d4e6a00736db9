"""A comparison on disk, in Markdown and on a terminal; comparisons of other packages are not shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from envwright.reports.before_after import (
    FOLDER,
    ComparisonReport,
    FunctionReport,
    Interval,
    SideReport,
    TaskReport,
    difference_text,
    document,
    read_comparisons,
    render_json,
)
from envwright.reports.blocks import render_markdown, render_text
from envwright.reports.run_report import difference_of

SIDE = SideReport("base", "endpoint", "acme/base", False, 16, 16, 8, Interval(0.25, 0.1, 0.4), 0.0, None)
REPORT = ComparisonReport(
    environment="gsm8k",
    digest="sha256:1",
    answer="worse",
    reason="the whole interval is below 0, over 8 tasks",
    confidence=0.95,
    range=(0.0, 2.0),
    difference=Interval(-0.2, -0.3, -0.1),
    before=SIDE,
    after=replace(SIDE, name="outputs/a b/results.jsonl", kind="results"),
    functions=(FunctionReport("exact|match", "reward", 1.0, 0.5, 0.25, None),),
    tasks=(TaskReport(3, "k3", "@someone | says <b>", 1.0, 0.5, (2, 2)), TaskReport(None, "k9", "", 0.0, 0.1, (2, 2))),
)


def test_comparison_is_read_back_only_for_same_package(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / f"{REPORT.file}.json").write_text(render_json(REPORT))
    for name, text in (("torn", "{"), ("list", "[]"), ("other", json.dumps({"verdict": "pass"}))):
        (tmp_path / FOLDER / f"{name}.json").write_text(text)
    [found] = read_comparisons(tmp_path, {"gsm8k": "sha256:1"})
    assert (found["answer"], found["verdict"], found["tasks"][0]["index"]) == ("worse", "fail", 3)
    assert read_comparisons(tmp_path, {"gsm8k": "sha256:2"}) == []
    assert REPORT.file == "gsm8k--base--outputs-a-b-results.jsonl"


def test_comparison_of_the_evaluation_split_has_files_of_its_own() -> None:
    held_out = replace(REPORT, split="eval")
    assert held_out.file == f"{REPORT.file}--eval"
    assert replace(held_out, after=replace(SIDE, name="trained--eval")).file == "gsm8k--base--trained--eval"


def test_comparisons_of_long_paths_have_files_of_their_own() -> None:
    folder = "/home/someone/" + "long/" * 20
    sides = [replace(SIDE, name=f"{folder}{step}/results.jsonl") for step in (0, 100, 200)]
    files = {replace(REPORT, before=sides[0], after=side).file for side in sides[1:]}
    assert [len(file) for file in files] == [180, 180]


def test_comparison_in_markdown_says_the_same() -> None:
    page = render_markdown(document(REPORT))
    assert page.startswith("### gsm8k: outputs/a b/results.jsonl is worse than base\n")
    assert "| `exact\\x7cmatch` | 1 | 0.500 | 0.250 | too few tasks |" in page
    assert "- **worse**: task 3: 1.000 to 0.500 @<!-- -->someone \\| says &lt;b&gt;" in page


def test_comparison_text_has_answer_interval_and_tasks() -> None:
    text = " ".join(render_text(document(REPORT)).split())
    assert "gsm8k: outputs/a b/results.jsonl is worse than base" in text
    assert "-0.200 (-0.300 to -0.100) of the range 0 to 2, 95% interval, paired over 2 tasks" in text
    assert "worse task 3: 1.000 to 0.500" in text
    assert "better k9: 0.000 to 0.100" in text
    assert "acme" not in render_text(document(REPORT, quiet=True))


@pytest.mark.parametrize(("tasks", "text"), [((), "no tasks in common"), (REPORT.tasks[:1], "1 task in common")])
def test_comparison_without_a_difference_counts_the_tasks_in_common(tasks: tuple[TaskReport, ...], text: str) -> None:
    report = replace(REPORT, difference=None, tasks=tasks)
    assert difference_text(report).startswith(text)
    assert difference_of({"difference": None, "tasks_count": len(tasks)}) == difference_text(report)
