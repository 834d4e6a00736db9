"""Planted defects are found and explained; sound rewards, odd ones among them, are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from envops.validation.stages.search import SEARCH_LOCK
from envops.validation.venv import venv_for
from envops_worker.search.exploit_search import Hunt
from hunting import hunted, panel_for
from rewards_to_search import DEFECTS, SOUND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.repository.workspace import Workspace
    from rewards_to_search import Planted

pytestmark = [pytest.mark.usefixtures("hypothesis"), pytest.mark.filterwarnings("ignore:Possible nested set")]
BY_NAME = {planted.name: planted for planted in (*DEFECTS, *SOUND)}
PATTERNS = {
    "substring": "several answers",
    "vacuous-subset": "empty",
    "several-tags": "several tags",
    "length-alone": "length",
    "length-beside": "length",
    "alternation": "constant from the source",
    "keyword": "constant from the source",
    "any-json-value": "several answers",
    "any-letter": "several answers",
    "form-is-enough": "empty",
}


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda planted: planted.name)
def test_planted_defect_is_found(planted: Planted, tmp_path: Path) -> None:
    assert hunted(planted, tmp_path, hypothesis=True).kinds() & planted.kinds


@pytest.mark.parametrize("planted", SOUND, ids=lambda planted: planted.name)
def test_sound_reward_is_left_alone(planted: Planted, tmp_path: Path) -> None:
    came = hunted(planted, tmp_path, hypothesis=True)
    assert came.finds == []
    assert came.ended == "evaluations"
    assert came.grader.evaluations <= 3000


@pytest.mark.parametrize(("name", "pattern"), PATTERNS.items())
def test_find_says_what_it_exploits(name: str, pattern: str, tmp_path: Path) -> None:
    assert hunted(BY_NAME[name], tmp_path).finds[0]["pattern"] == pattern


@pytest.mark.parametrize("name", ["substring", "several-tags", "keyword", "any-json-value", "reply-in-answer"])
def test_find_is_short(name: str, tmp_path: Path) -> None:
    assert len(hunted(BY_NAME[name], tmp_path).find("blind")["reply"]) <= 45


def test_constant_is_found_with_its_place(tmp_path: Path) -> None:
    find = hunted(BY_NAME["keyword"], tmp_path).find("blind")
    assert find["reply"] == "quod erat"
    assert "rewards.py:" in find["explanation"]


def test_find_on_a_panel_says_what_it_earns_on_every_task(tmp_path: Path) -> None:
    find = hunted(BY_NAME["any-number"], tmp_path).find("blind")
    assert [earned["task"] for earned in find["earned"]] == [0, 1, 2, 3, 4]
    assert sum(earned["reward"] for earned in find["earned"]) == 2.0


def test_undeclared_pay_names_the_function(tmp_path: Path) -> None:
    assert hunted(BY_NAME["length-beside"], tmp_path).find("unearned")["functions"] == ("effort",)


def test_search_ends_early_with_a_find_and_by_count_without(tmp_path: Path) -> None:
    assert hunted(BY_NAME["substring"], tmp_path).ended == "found"
    few = hunted(BY_NAME["exact"], tmp_path, evaluations=200)
    assert few.ended == "evaluations"
    assert few.grader.evaluations == 200


@pytest.mark.parametrize("name", ["recall-only", "exact", "length-beside"])
def test_equal_seeds_find_the_same(name: str, tmp_path: Path) -> None:
    first, again = (hunted(BY_NAME[name], tmp_path, hypothesis=True) for _ in range(2))
    assert first.finds == again.finds
    assert first.grader.evaluations == again.grader.evaluations
    assert first.coverage.lines_reached == again.coverage.lines_reached


def test_coverage_counts_lines_and_steps_of_the_reward_alone(tmp_path: Path) -> None:
    coverage = hunted(BY_NAME["several-tags"], tmp_path).coverage
    assert 0 < coverage.lines_reached <= coverage.lines_known
    assert set(coverage.files.values()) == {"rewards.py"}


def nothing(_hunt: Hunt) -> Iterator[None]:
    return iter(())


@pytest.mark.parametrize(
    "name", ["substring-in-tag", "alternation", "two-keywords", "any-letter", "form-is-enough", "reply-in-answer"]
)
def test_properties_alone_find_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for phase in ("_made_wrong", "_seeds", "_evolution"):
        monkeypatch.setattr(Hunt, phase, nothing)
    assert hunted(BY_NAME[name], tmp_path, hypothesis=True).find("blind")["found_by"] == "properties"


@pytest.mark.parametrize("name", ["substring-in-tag", "recall-only", "two-keywords", "split-words", "nan-passes"])
def test_evolution_alone_finds_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for phase in ("_made_wrong", "_seeds", "_properties"):
        monkeypatch.setattr(Hunt, phase, nothing)
    assert hunted(BY_NAME[name], tmp_path, hypothesis=True).find("blind")["found_by"] == "evolution"


def test_accepted_variants_that_overlap_are_not_both_on_the_panel() -> None:
    answers = [entrant.answer for entrant in panel_for(BY_NAME["accepted-variants"])]
    assert '["feline", "lion"]' not in answers


def test_what_is_tried_does_not_follow_from_the_hash_seed(tmp_path: Path, workspace: Workspace) -> None:
    toolbox = venv_for(SEARCH_LOCK, workspace, threading.Event()).site_packages
    program = [sys.executable, str(Path(__file__).with_name("drawn_replies.py")), str(tmp_path), str(toolbox)]
    said = [
        subprocess.run(program, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] != b""
