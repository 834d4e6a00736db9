"""Five questions that a reader has, each answered within two clicks from the first screen of the report.

A single conversation takes a third."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from browsing import Visit
from playwright.sync_api import Locator, Page, expect
from test_report_in_browser import address, names
from test_report_in_browser import reports as reports  # the same reports, by name

pytestmark = pytest.mark.browser


@dataclass
class Reader:
    """A person who starts at the first screen; every click is counted."""

    page: Page
    environment: str
    clicks: int = 0
    most: int = 2

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1

    def open_environment(self) -> None:
        self.click(self.page.locator("#environments").get_by_role("link", name=self.environment, exact=True))

    def open_section(self, name: str) -> Locator:
        heading = self.page.get_by_role("heading", name=name, exact=True)
        self.click(heading)
        return self.page.locator("#detail details.part").filter(has=heading)


@pytest.fixture
def reader(visit: Visit, reports: Path) -> Iterator[Reader]:
    page = visit.open(address(reports))
    started = Reader(page, names(visit)[0])
    yield started
    assert started.clicks <= started.most


@pytest.mark.slow
def test_reader_finds_why_an_environment_fails(reader: Reader) -> None:
    expect(reader.page.locator("#overview")).to_contain_text("fail")
    reader.open_environment()
    expect(reader.page.locator("#detail .finding").first).to_be_in_viewport()
    expect(reader.page.locator("#detail .finding").first).to_contain_text("fix", ignore_case=True)


@pytest.mark.slow
def test_reader_finds_the_reply_that_is_paid_and_should_not_be(reader: Reader) -> None:
    reader.open_environment()
    finding = reader.page.locator("#detail .finding").first
    expect(finding).to_contain_text("<answer>1,042</answer>")
    assert finding.locator("tbody tr").all_inner_texts()[0].split("\t") == ["correct_answer", "1", "0.8", "0.8"]


@pytest.mark.slow
def test_reader_finds_whether_it_is_too_hard_for_the_model(reader: Reader) -> None:
    reader.open_environment()
    spread = reader.open_section("Distribution")
    expect(spread.get_by_text("pass@", exact=False).first).to_be_visible()


@pytest.mark.slow
def test_reader_finds_what_the_change_of_the_reward_did(reader: Reader, reports: Path) -> None:
    reader.environment = json.loads((reports / "reward-diff.json").read_text())["environments"][0]["name"]
    reader.open_environment()
    changed = reader.open_section("Reward diff")
    expect(changed).to_contain_text("1 of 20 replies is scored differently")


def test_reader_finds_the_worst_rollout_turn_by_turn(reader: Reader) -> None:
    reader.open_environment()
    section = reader.open_section("Transcripts")
    reader.most = 3
    reader.click(section.locator("tbody tr").filter(has_text="worst").first.get_by_role("link"))
    expect(reader.page.locator("#transcript-title")).to_be_visible()
    expect(reader.page.locator(".transcript")).to_contain_text("worst")
