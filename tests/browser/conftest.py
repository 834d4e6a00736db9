"""Chromium from the system, driven by Playwright: one browser for a file of tests, a fresh profile for each."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "report"), str(ROOT / "benchmarks")]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
QUIET += ("--disable-component-update", "--disable-sync")
WIDTHS = (360, 768, 1440)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium; a machine without it skips these tests, CI fails them."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing = "Chromium is not installed: apt-get install chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium's own does not start for root
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=[*QUIET, *sandbox])
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page that is being looked at, and everything that it did."""

    page: Page
    requested: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> Page:
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.page

    def go(self, address: str) -> Page:
        """Another view of the same page."""
        self.page.evaluate(
            """address => location.hash === address || new Promise((done) => {
              addEventListener("hashchange", () => requestAnimationFrame(() => done()), { once: true });
              location.hash = address;
            })""",
            address,
        )
        self.page.wait_for_function("() => [...document.querySelectorAll('figure .plot')].every(one => one.firstChild)")
        return self.page

    def mistakes(self) -> list[str]:
        """What axe finds against WCAG 2 A and AA and the usual good practice."""
        found = Axe().run(self.page)
        return [
            f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:160]} {one['nodes'][0]['failureSummary'][:200]}"
            for one in found.response["violations"]
        ]

    def too_wide(self) -> list[str]:
        """What reaches beyond the window, but for what scrolls by itself."""
        return self.page.evaluate(
            """() => {
              const wide = [...document.querySelectorAll("body *")].filter((one) => {
                const box = one.getBoundingClientRect();
                return box.width > 1 && (box.right > innerWidth + 1 || box.left < -1)
                  && !one.closest(".scroll, pre, .skip, .unseen");
              }).map((one) => one.outerHTML.slice(0, 120));
              return document.documentElement.scrollWidth > innerWidth ? ["the page itself", ...wide] : wide;
            }"""
        )


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A page of its own; whatever it asks for or complains about is kept."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(15_000)
    made = Visit(page)
    page.on("request", lambda request: made.requested.append(request.url))
    page.on("pageerror", lambda error: made.complaints.append(error.stack or str(error)))
    page.on("console", lambda said: made.complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("dialog", lambda dialog: (made.complaints.append(dialog.message), dialog.dismiss()))
    yield made
    context.close()
