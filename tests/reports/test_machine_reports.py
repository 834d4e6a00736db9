"""validate.json, validate.xml, validate.md and annotations of ordinary results."""

import json
from dataclasses import replace
from importlib.resources import files
from xml.etree import ElementTree

import jsonschema
import pytest
from envwright.reports.junit import junit_parts
from envwright.reports.markdown import LIMIT_BYTES, render_markdown
from envwright.reports.printing import render_annotations
from envwright.reports.result import ValidationResult, json_parts
from envwright.rules.engine import Finding
from envwright.rules.evidence import Evidence, ShownReply
from sample_results import (
    ALL_PASS,
    FAILING,
    IGNORED,
    MISSED_GOLD,
    THIN,
    found,
    hostile,
    interrupted,
    mistaken,
    mixed,
    passing,
)


def test_json_reports_match_their_schema() -> None:
    schema = json.loads(files("envwright.reports").joinpath("validate.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for result in (passing(), mixed(), mistaken(), interrupted(), hostile()):
        jsonschema.Draft202012Validator(schema).validate(json.loads("".join(json_parts(result))))


def test_json_report_has_the_keys_of_the_contract() -> None:
    data = json.loads("".join(json_parts(mixed())))
    assert (data["version"], data["verdict"]) == (1, "fail")
    environment = data["environments"][1]
    assert environment["gates"] == dict(FAILING.gates)
    assert environment["cached"] is False
    finding = environment["findings"][0]
    assert finding == {
        "rule": "RWD001", "gate": "rewards", "severity": "error", "message": MISSED_GOLD.message,
        "evidence": MISSED_GOLD.evidence.named(), "fix": MISSED_GOLD.fix,
        "file": "environments/reverse_text/reverse_text/taskset.py", "line": 31,
        "inconclusive": False, "bug": False, "ignored": False, "reason": None, "known": False,
        "waiting": [], "transcript": None,
    }  # fmt: skip


def cases(result: ValidationResult) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring("".join(junit_parts(result)))
    return {f"{case.get('classname')}/{case.get('name')}": case for case in root.iter("testcase")}


def outcome(case: ElementTree.Element) -> str:
    return case[0].tag if len(case) else "passed"


def test_junit_has_a_case_per_gate_and_failing_rule() -> None:
    assert {name: outcome(case) for name, case in cases(mixed()).items() if not name.startswith("gsm8k")} == {
        "reverse-text/schema gate": "passed",
        "reverse-text/rewards gate": "failure",
        "reverse-text/smoke gate": "passed",
        "reverse-text/distribution gate": "skipped",
        "reverse-text/rewards: RWD001": "failure",
        "reverse-text/distribution: DST003": "skipped",
        "reverse-text/rewards: RWD007": "skipped",
        "word-sort/schema gate": "passed",
        "word-sort/rewards gate": "error",
        "word-sort/rewards stage": "error",
    }


def test_junit_counts_match_its_cases() -> None:
    root = ElementTree.fromstring("".join(junit_parts(mixed())))
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "14",
        "failures": "2",
        "errors": "2",
        "skipped": "3",
    }


def test_junit_marks_declaration_problems_and_interruption() -> None:
    assert [outcome(case) for case in cases(mistaken()).values()] == ["failure", "failure"]
    assert outcome(cases(interrupted())["word-sort/validate"]) == "error"


def test_junit_joins_findings_of_one_rule_in_one_case() -> None:
    text = cases(found(*[MISSED_GOLD] * 30))["reverse-text/rewards: RWD001"][0].text or ""
    assert text.count(MISSED_GOLD.message) == 20
    assert text.endswith("and 10 more; all are in validate.json")


def test_markdown_page_of_mixed_run_has_table_and_findings() -> None:
    page = render_markdown(mixed())
    assert page.startswith("## ❌ fail: validation\n\n1 environment failed, 1 not judged, 1 passed;")
    assert "| ❌ | `reverse-text` | `0.1.0` | v1 | ✅ pass | ❌ fail | ✅ pass | ❔ inconclusive | 8.1 s |\n" in page
    assert "<details open><summary><b>RWD001</b> error · rewards · the oracle" in page
    assert "```text\n<think>\nthree zeros\n</think>\n<answer>1,000</answer>\n```" in page
    assert "**Fix:** Compare the parsed answer as a number, not as text." in page
    assert page.index("**Fix:** Compare") < page.index("three zeros")
    assert "Ignored: listing is the task" in page


def test_markdown_page_has_further_examples_of_a_finding_closed() -> None:
    replies = (Evidence(reply=ShownReply(3, "one hundred")), Evidence(reply=ShownReply(4, "a dozen")))
    further = replace(MISSED_GOLD, evidence=Evidence(more=replies))
    page = render_markdown(found(further))
    assert "<details><summary>2 more examples</summary>\n\n```text\ntask 3\none hundred\n```\n" in page
    assert "a dozen" in page


def crowd(count: int) -> ValidationResult:
    """Many environments, each with long findings of every kind."""
    reply = Evidence(reply=ShownReply(0, "ö`" * 3_000))
    kinds = (
        replace(MISSED_GOLD, evidence=reply),
        replace(THIN, evidence=reply),
        Finding("RWD020", "rewards", "warning", "a warning", "fix", reply),
        Finding("RWD021", "rewards", "advice", "an advice", "fix", reply),
        replace(IGNORED, evidence=reply),
    )
    failing = [replace(FAILING, name=f"failing-{number}", findings=kinds) for number in range(count)]
    passing_ones = [replace(ALL_PASS, name=f"passing-{number}") for number in range(count)]
    return ValidationResult("fail", (*failing, *passing_ones))


@pytest.mark.parametrize("limit", [20_000, 100_000, 500_000, LIMIT_BYTES])
def test_markdown_page_stays_within_limit_and_notes_the_cut(limit: int) -> None:
    page = render_markdown(crowd(100), limit)
    assert len(page.encode()) <= limit
    assert "This page was cut to fit" in page
    assert page.startswith("## ❌ fail")
    assert "**Next:** " in page
    assert "**Otherwise:** " in page


def test_markdown_page_drops_least_important_findings_first() -> None:
    page = render_markdown(crowd(100), LIMIT_BYTES)
    assert page.count("<details open>") > 20
    assert page.count("<b>RWD001</b>") == 100
    assert "an advice" not in page
    assert " ignored · " not in page


def test_annotations_name_file_and_line() -> None:
    lines = render_annotations(mixed())
    assert lines[1] == (
        "::error file=environments/reverse_text/reverse_text/taskset.py,line=31,title=RWD001 reverse-text::"
        "the oracle's reply earns 0.2 of 1.0 (2 of 10 conversations)%0AFix: Compare the parsed answer as a number, "
        "not as text."
    )
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::warning", "::notice"]


def test_annotations_escape_percent_and_omit_foreign_files() -> None:
    finding = replace(MISSED_GOLD, message="100% of\nall", file="/usr/lib/python/random.py", line=3)
    line = render_annotations(found(finding))[0]
    assert line.startswith("::error title=RWD001 reverse-text::100%25 of%0Aall%0AFix")
