"""Chromium from the system, driven by Playwright: one browser for a file of tests, a fresh profile for each."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Visit
from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "reports"), str(ROOT / "benchmarks")]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
QUIET += ("--disable-component-update", "--disable-sync")


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


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """A new page, whose requests and messages are recorded."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(60_000)  # a busy machine is slow, not wrong
    expect.set_options(timeout=60_000)
    made = Visit(page)
    page.on("request", lambda request: made.requested.append(request.url))
    page.on("pageerror", lambda error: made.complaints.append(error.stack or str(error)))
    page.on(
        "console",
        lambda expected: made.complaints.append(expected.text) if expected.type in ("error", "warning") else None,
    )
    page.on("dialog", lambda dialog: (made.complaints.append(dialog.message), dialog.dismiss()))
    yield made
    context.close()
