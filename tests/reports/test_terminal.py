"""The closing words of a run."""

import re
from dataclasses import replace

import pytest
from envops.reports.markdown import render_markdown
from envops.reports.terminal import render_text
from envops.rules.evidence import EarnedReward, Evidence, ShownReply
from envops.rules.result import ValidationResult
from sample_results import ALL_PASS, FAILING, MISSED_GOLD, hostile, interrupted, mistaken, mixed, passing

MIXED = """\
   environment       schema  rewards  smoke  distribution    time
✓  gsm8k         v1  pass    pass     pass   pass          cached
✗  reverse-text  v1  pass    fail     pass   inconclusive   8.1 s
!  word-sort     v0  pass    error    –      –             31.5 s

reverse-text  fail  0.1.0  sha256:ab12ab12ab12

  distribution inconclusive: too little evidence: DST003

  RWD001 error: the oracle's reply earns 0.2 of 1.0 (2 of 10
         conversations)
    at         environments/reverse_text/reverse_text/taskset.py:31
    task       3
    policy     oracle
    reply      │ <think>
               │ three zeros
               │ </think>
               │ <answer>1,000</answer>
    reward     0.2
    functions  correct_answer 0.0 × 0.8, format_reward 1.0 × 0.2, turns 1
    also       │ task 7, policy oracle, reward 0.2
               │ <answer>2,500</answer>
    fix        Compare the parsed answer as a number, not as text.

  DST003 inconclusive: 12 rollouts are too few to say
    fix        Raise smoke.rollouts.

  SCH010 advice: the README has no reward table
    at         environments/reverse_text/README.md
    fix        Add one under `## Reward`.

  RWD007 ignored: the hedge policy earns 0.9
    reason     listing is the task

word-sort  error  1.0  sha256:222222222222

  rewards error: rewards: timeout, Timeout

Infrastructure failures (unrelated to the rewards):

  word-sort rewards, timeout: Timeout: the worker returned no result for 30 s
    and was stopped
    at         environments/word_sort/word_sort.py:88
    traceback  │ Traceback (most recent call last):
               │   time.sleep(1000)
               │ Timeout

✗ fail: 3 environments: 1 failed, 1 not judged, 1 passed; 1 from the cache;
  41.2 s
reports    reports/validate.json  reports/validate.xml
next       envops explain RWD001
           nox -s validate -- reverse-text word-sort
"""

DECLARATIONS = """\
registry.yaml:12
    unknown key
    path       environments.reverse-text
    found      gatez
    allowed    args, gates, ignore
    nearest    gates

environments/gsm8k/requirements.lock
    does not match pyproject.toml
    fix        nox -s lock -- gsm8k

✗ fail: 2 problems in 2 declared files; nothing was observed
next       nox -s validate
"""


def last_lines(result: ValidationResult, **settings) -> list[str]:
    return render_text(result, **settings).splitlines()[-3:]


def test_terminal_report_of_mixed_run_matches_expected_text() -> None:
    assert render_text(mixed(), reports=("reports/validate.json", "reports/validate.xml")) == MIXED


def test_terminal_report_of_declaration_errors_matches_expected_text() -> None:
    assert render_text(mistaken()) == DECLARATIONS


def test_terminal_report_exceeds_width_only_for_paths_and_commands() -> None:
    for width in (60, 80, 140):
        wide = [line for line in render_text(hostile(), width=width).splitlines() if len(line) > width]
        assert all(re.match(r"    at |</script>|reverse-text  fail", line) for line in wide), wide


def test_terminal_table_with_long_names_fits_80_columns() -> None:
    name = "an-environment-with-a-name-that-is-far-too-long-for-any-table"
    thin = replace(FAILING, name=name, gates=dict.fromkeys(FAILING.gates, "inconclusive"), findings=(), reasons={})
    table = render_text(ValidationResult("inconclusive", (thin,))).split("\n\n")[0]
    assert max(len(line) for line in table.splitlines()) <= 80
    assert table.count("inconclusive") == 4


def test_passing_run_ends_with_verdict_cache_and_next_command() -> None:
    assert last_lines(passing(), reports=("reports/validate.json",)) == [
        "✓ pass: 1 environment: 1 passed; from the cache; 0.4 s",
        "reports    reports/validate.json",
        "next       git push",
    ]


def test_interrupted_run_lists_unfinished_and_next_command() -> None:
    text = render_text(interrupted())
    assert "interrupted, partial report" in text
    assert text.endswith("unfinished word-sort\nnext       nox -s validate -- word-sort\n")


def test_single_gate_run_repeats_that_gate_in_next_command() -> None:
    assert render_text(replace(mixed(), gates=("rewards",))).endswith("nox -s rewards -- reverse-text word-sort\n")


def test_headline_without_environments_is_explained() -> None:
    assert "nothing to validate" in render_text(ValidationResult("pass"))


def test_terminal_empty_reply_is_marked_empty() -> None:
    finding = replace(MISSED_GOLD, evidence=Evidence(reply=ShownReply(0, ""), earned=EarnedReward(None)))
    text = render_text(ValidationResult("fail", (replace(FAILING, findings=(finding,)),)))
    assert "    reply      (empty)\n    reward     none\n" in text


def test_terminal_long_reply_is_shortened_with_length() -> None:
    finding = replace(MISSED_GOLD, evidence=Evidence(reply=ShownReply(0, "x" * 200_000)))
    text = render_text(ValidationResult("fail", (replace(FAILING, findings=(finding,)),)))
    assert "reply (200,000 characters)" in text
    assert len(text) < 4_000


def test_many_findings_of_one_rule_are_counted() -> None:
    text = render_text(ValidationResult("fail", (replace(FAILING, findings=(MISSED_GOLD,) * 12),)))
    assert text.count("RWD001 error") == 5
    assert "RWD001: 7 more; all are in validate.json" in text


def test_terminal_rule_bug_is_not_an_environment_failure() -> None:
    bug = replace(MISSED_GOLD, bug=True, message="the rule itself failed")
    text = render_text(ValidationResult("error", (replace(FAILING, findings=(bug,)),)))
    assert "RWD001 bug: the rule itself failed" in text


def test_quiet_report_keeps_only_deciding_findings() -> None:
    text = render_text(mixed(), quiet=True)
    assert "RWD001 error" in text
    assert "environment       schema" not in text
    assert "SCH010" not in text
    assert "RWD007" not in text
    assert text.endswith("nox -s validate -- reverse-text word-sort\n")


def test_colour_is_used_only_when_requested() -> None:
    assert "\x1b[" not in render_text(mixed())
    coloured = render_text(mixed(), colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render_text(mixed())


@pytest.mark.parametrize("endpoint", [None, "gpt"])
def test_policies_are_named_on_the_page_and_not_on_the_terminal(endpoint: str | None) -> None:
    result = ValidationResult("pass", (ALL_PASS,), endpoint=endpoint)
    assert "Policies" not in render_text(result)
    text = render_markdown(result)
    assert "Policies: oracle, blend" in text
    assert ("real model: gpt" in text) == (endpoint is not None)
    assert ("Scripted policies" in text) == (endpoint is None)
