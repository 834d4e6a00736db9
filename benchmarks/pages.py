"""The HTML report of 200 environments and 50,000 rollouts with conversations: how long it takes, how large it is, and
how soon it answers a search and shows a conversation.

Prints one line of JSON. The time to generate rollouts is not counted. Those of one environment are released before the
next ones are generated, as in a real run.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from envwright.reports.result import EnvironmentResult, ValidationResult
from envwright.reports.written import write_reports
from sample_reports import sample_result, sample_subject

ENVIRONMENTS, ROLLOUTS = 200, 50_000
OPENED = 3
TYPED = "() => document.getElementById('shown').textContent !== ''"


def main() -> None:
    """Build, weigh and open it."""
    _, half = measured(ROLLOUTS // 2)
    results, measuring = measured(ROLLOUTS)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        write_reports(ValidationResult("fail", tuple(results), seconds=812.4, tool="0.1.0"), Path(folder))
        writing = time.process_time() - started
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        page = Path(folder) / "validate.html"
        size = page.stat().st_size
        beside = sum(path.stat().st_size for path in (Path(folder) / "transcripts").iterdir())
        opened = [interactive(page) for _ in range(OPENED)]
        seconds, conversations = ([one[place] for one in opened] for place in (0, 1))
    data = {
        "environments": ENVIRONMENTS,
        "rollouts": ROLLOUTS,
        "measuring": measuring,
        "measuring_half": half,
        "seconds": measuring + writing,
        "megabytes": memory,
        "page_megabytes": size / 1e6,
        "transcripts_megabytes": beside / 1e6,
        "conversation": statistics.median(conversations),
        "interactive": statistics.median(seconds),
        "opened": f"until a search was answered; median of {OPENED}, slowest {max(seconds):.2f} s",
    }
    print(json.dumps(data))


def measured(rollouts: int) -> tuple[list[EnvironmentResult], float]:
    """The results of this many rollouts, and the processor seconds without the time to generate them."""
    results, seconds = [], 0.0
    for number in range(ENVIRONMENTS):
        subject = sample_subject(number, rollouts // ENVIRONMENTS)
        started = time.process_time()
        results.append(sample_result(number, subject))
        seconds += time.process_time() - started
    return results, seconds


def interactive(page: Path) -> tuple[float, float]:
    """Seconds from opening the page in a browser that has never seen it until it has answered a search, and from there
    until the first conversation of an environment is there.
    """
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as started, started.chromium.launch(executable_path=program, args=sandbox) as browser:
        opened = browser.new_page()
        begun = time.perf_counter()
        opened.goto(page.as_uri())
        opened.locator("#search").fill("harbour")
        opened.wait_for_function(TYPED)
        answered = time.perf_counter()
        name = opened.locator("#environments tbody tr:visible").first.get_attribute("data-name")
        opened.evaluate("name => { location.hash = `#/transcripts/${name}`; }", name)
        opened.locator("[role=option]").first.click()
        opened.locator(".turn").first.wait_for()
        return answered - begun, time.perf_counter() - answered


if __name__ == "__main__":
    main()
