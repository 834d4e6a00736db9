"""Every report shows the extent of the exploit search and how it ended."""

from __future__ import annotations

import json

from envwright.facts.search import Exploit, PanelTask, Search
from envwright.reports.markdown import render_markdown
from envwright.reports.result import EnvironmentResult, ValidationResult, json_parts
from envwright.reports.summary import search_sentence
from envwright.reports.terminal import render_text

FIND = Exploit("blind", "keyword", "its words stand in the source", "\x1b[31mquod erat", "seeds", 40, ())
SEARCH = Search(
    seed=3,
    ended="found",
    evaluations=700,
    limit=3000,
    replies=350,
    seconds=0.5,
    panel=(PanelTask(0, "42", 1.0, 0.0), PanelTask(1, "7", 1.0, 0.0)),
    lines_reached=9,
    lines_known=11,
    exploits=(FIND,),
)


def test_search_sentence_has_finds_bounds_coverage_and_seed() -> None:
    assert search_sentence(SEARCH) == (
        "exploit search: 1 exploit; 350 replies in 700 scorings of at most 3000, stopped at an exploit; "
        "2 tasks, 9 of 11 lines reached, seed 3; 0.5 s"
    )


def test_reports_have_search_and_json_every_exploit() -> None:
    environment = EnvironmentResult("a-b", "environments/a_b", "pass", gates={"rewards": "pass"}, search=SEARCH)
    result = ValidationResult("pass", environments=(environment,), gates=("rewards",))
    assert "exploit search: 1 exploit" in render_text(result, width=200, verbose=True)
    assert "exploit search: 1 exploit" in render_markdown(result)
    assert "exploit search" not in render_text(result)
    [data] = json.loads("".join(json_parts(result)))["environments"]
    assert data["search"]["exploits"][0]["pattern"] == "keyword"
    assert data["search"]["panel"][1]["answer"] == "7"
