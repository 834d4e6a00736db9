"""What was measured of rewards is in every report, and hidden where it would only be in the way."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files

import jsonschema
import pytest
from envops.reports.json_report import render_json
from envops.reports.markdown import render_markdown
from envops.reports.terminal import render_text
from envops.repository.registry import DistributionGate
from envops.rules.result import ValidationResult
from envops.statistics.declared_range import DeclaredRange
from envops.statistics.measures import distribution_of
from envops.statistics.outcomes import RolloutOutcome, RolloutSample
from sample_results import ALL_PASS


def measured(*groups, policy="blend"):
    outcomes = tuple(RolloutOutcome(task, reward, {}) for task, rewards in enumerate(groups) for reward in rewards)
    return distribution_of(RolloutSample(policy, outcomes, DeclaredRange(0.0, 1.0)), DistributionGate())


def result(*groups, gates=("distribution",), policy="blend"):
    environment = replace(ALL_PASS, distributions=(measured(*groups, policy=policy),))
    return ValidationResult("pass", (environment,), gates=gates)


MIXED = [[0.0, 1.0] * 4] * 10
NEVER = [[0.0] * 8] * 16


def test_terminal_shows_checks_with_intervals_and_advice():
    text = render_text(result(*MIXED), width=100)
    assert "blend: 80 of 80 rollouts scored, 10 tasks" in text
    assert "DST010" in text
    assert "0.500 (0.3" in text
    assert "keep group_size = 8" in text
    assert "does not apply to a model" in text.replace("\n", " ")


def test_a_model_gets_advice_without_the_caveat():
    assert "scripted policy" not in render_text(result(*MIXED, policy="qwen3-4b"))


def test_undecided_checks_say_what_would_decide():
    text = " ".join(render_text(result(*NEVER), width=120).split())
    assert "more rollouts (" in text
    assert "would decide" in text


@pytest.mark.parametrize("quiet", [True, False])
def test_a_run_of_all_gates_stays_short(quiet):
    gates = ("schema", "rewards", "smoke", "distribution")
    assert "what was measured" not in render_text(result(*MIXED, gates=gates), quiet=quiet)


def test_page_and_file_have_it_always():
    whole = result(*MIXED, gates=("schema", "rewards", "smoke", "distribution"))
    assert "<b>distribution</b>" in render_markdown(whole)
    written = json.loads(render_json(whole))
    schema = json.loads(files("envops.reports").joinpath("validate.schema.json").read_text())
    jsonschema.validate(written, schema, jsonschema.Draft202012Validator)
    data = written["environments"][0]["distributions"][0]
    assert data["mean"]["value"] == 0.5
    assert {check["rule"] for check in data["checks"]} >= {"DST002", "DST004", "DST010"}
    assert {each["topic"] for each in data["advice"]} == {"group size", "batch size"}


def test_one_task_is_told_without_an_interval():
    text = json.loads(render_json(result([0.0, 1.0] * 4)))["environments"][0]["distributions"][0]
    assert (text["mean"]["low"], text["mean"]["high"]) == (0.0, 1.0)


def test_distribution_nothing_scored_is_shown():
    text = render_text(result([None] * 8))
    assert "0 of 8 rollouts scored" in text
