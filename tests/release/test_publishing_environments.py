"""The way from a push to a verdict: only what the Hub shows afterwards counts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from envwright.declarations.package import Package
from envwright.hub.state import HubEnvironment, HubReading
from envwright.release.evidence import read_evidence
from envwright.release.plan import Desired, ReleaseStep
from envwright.release.publishing import HubSide, Published, Push, SourceDiffers, publish
from envwright.rules.engine import GATES
from envwright.system.retry_policy import HUB_PUSH
from envwright.system.subprocesses import Interrupted

DESIRED = Desired("sums", "acme", "0.2.0", "new" * 10, "PRIVATE")
BEFORE = HubEnvironment("PRIVATE", "0.1.0", "old" * 10)
AFTER = HubEnvironment("PRIVATE", "0.2.0", "new" * 10)
PUBLIC = HubEnvironment("PUBLIC", "0.2.0", "new" * 10)
THEIRS = HubEnvironment("PRIVATE", "0.1.5", "theirs")
STEP = ReleaseStep(DESIRED, "publish", "0.1.0 → 0.2.0", found=BEFORE)
CREATE = ReleaseStep(DESIRED, "create", "")
TO_PUBLIC = ReleaseStep(replace(DESIRED, visibility="PUBLIC"), "visibility", "", found=AFTER)
DONE = Push(0, "Successfully pushed acme/sums")
BUSY = Push(1, "Failed to prepare wheel upload: HTTP 503: busy\nUpload failed: 1")
RESET = Push(1, "Upload failed: Request failed: ReadError at POST http://hub/finalize")
SAME = Push(1, "Failed to prepare wheel upload: HTTP 409: An environment version with content hash x already exists")
OTHER = Push(1, "Failed to prepare wheel upload: HTTP 409: Version 0.2.0 already exists with different content")
FORBIDDEN = Push(1, "API Error: HTTP 403: no")
WITHOUT_PAUSES = replace(HUB_PUSH, first_seconds=0.0)


@dataclass
class ScriptedHub:
    """Answers pushes and reads from lists, the last entry again and again."""

    pushes: Sequence[Push | Exception]
    shows: Sequence[HubEnvironment | str | None]
    """What each read finds: an environment, nothing, or the words of a failure."""
    contents: frozenset[str] = frozenset()
    pushed: int = 0
    reads: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def push(self) -> Push:
        answer = self.pushes[min(self.pushed, len(self.pushes) - 1)]
        self.pushed += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def read(self) -> tuple[HubReading, frozenset[str]]:
        found = self.shows[min(self.reads, len(self.shows) - 1)]
        self.reads += 1
        if isinstance(found, str):
            return HubReading("unreadable", why=found), frozenset()
        return HubReading("found" if found else "missing", found), self.contents

    def publish(self, step: ReleaseStep = STEP) -> Published:
        return publish(step, HubSide(self.push, self.read, self.stop, WITHOUT_PAUSES))


@pytest.mark.parametrize(
    ("step", "pushes", "shows", "pushed", "reads"),
    [
        (STEP, [DONE], [AFTER], 1, 1),
        *((STEP, [lost], [AFTER], 1, 1) for lost in (RESET, BUSY, SAME, FORBIDDEN)),
        (STEP, [BUSY, RESET, DONE], [BEFORE, BEFORE, BEFORE, BEFORE, AFTER], 3, 5),
        (STEP, [DONE], [BEFORE, BEFORE, AFTER], 1, 3),
        (STEP, [RESET], [BEFORE, AFTER], 1, 2),
        (STEP, [RESET], ["HTTP 500", "HTTP 500", AFTER], 1, 3),
        (TO_PUBLIC, [BUSY, SAME], [AFTER, AFTER, PUBLIC], 2, 3),
    ],
)
def test_publish_pushes_again_only_without_effect(
    step: ReleaseStep, pushes: list[Push], shows: list[HubEnvironment | str], pushed: int, reads: int
) -> None:
    hub = ScriptedHub(pushes, shows)
    assert (hub.publish(step).outcome, hub.pushed, hub.reads) == ("published", pushed, reads)


BUMP, AGAIN = "envwright bump sums", "run the release again"


@pytest.mark.parametrize(
    ("step", "pushes", "shows", "contents", "outcome", "pushed", "said", "then"),
    [
        (STEP, [BUSY], BEFORE, (), "failed", 5, ".*HTTP 503.*", AGAIN),
        (STEP, [DONE], BEFORE, (), "unknown", 1, ".*the Hub does not show it", "check the environment's page"),
        (STEP, [RESET, SAME], BEFORE, (), "wedged", 2, ".*without its source.*", BUMP),
        (STEP, [OTHER], BEFORE, (), "failed", 1, r"version 0\.2\.0 is already published with other content", BUMP),
        (STEP, [SAME], BEFORE, (DESIRED.content_hash,), "wedged", 1, ".*not the newest", BUMP),
        (STEP, [RESET], "HTTP 500", (), "unknown", 1, ".*could not be read after the push: HTTP 500", AGAIN),
        (STEP, [BUSY], THEIRS, (), "failed", 1, ".*changed by someone else.*0.1.5", "plan again"),
        (CREATE, [FORBIDDEN], None, (), "failed", 1, ".*cannot write here.*", "use a key that can write"),
        (TO_PUBLIC, [SAME], AFTER, (), "failed", 1, "the Hub keeps acme/sums PRIVATE", "change it on the"),
    ],
)
def test_publish_without_effect_names_the_reason(
    step: ReleaseStep,
    pushes: list[Push],
    shows: HubEnvironment | str | None,
    contents: Sequence[str],
    outcome: str,
    pushed: int,
    said: str,
    then: str,
) -> None:
    hub = ScriptedHub(pushes, [shows], frozenset(contents))
    result = hub.publish(step)
    assert (result.outcome, hub.pushed) == (outcome, pushed)
    assert re.fullmatch(said, result.message)
    assert result.next.startswith(then)


def test_publish_changed_files_are_not_pushed() -> None:
    hub = ScriptedHub([SourceDiffers("the files of sums changed since the plan was made")], [BEFORE])
    assert (hub.publish().outcome, hub.reads) == ("failed", 0)


def test_publish_interrupted_does_not_push_again() -> None:
    hub = ScriptedHub([BUSY], [BEFORE])
    hub.stop.set()
    with pytest.raises(Interrupted):
        hub.publish()
    assert hub.pushed == 1


@pytest.mark.parametrize(
    ("expected", "blame"),
    [
        ("Upload failed: Server error '503 Service Unavailable' for url 'https://up/?sig=x'", "passing"),
        ("Upload failed: Client error '403 Forbidden' for url 'https://up/'", "rights"),
        ("API Error: API key unauthorized. Please check", "rights"),
        ("Failed to prepare wheel upload: HTTP 429: slow down", "passing"),
        ("Failed to upload wheel: [Errno 104] Connection reset by peer", "passing"),
        ("Upload failed: Expecting value: line 1 column 1 (char 0)", "passing"),
        ("API Error: Validation failed:\n  - name: too long", "refused"),
        ("API Error: HTTP 404: no such team", "refused"),
        ("Build failed!\nno module", "local"),
        ("Failed to parse pyproject.toml: Not a homogeneous array", "local"),
    ],
)
def test_push_failure_kind_follows_from_the_output(expected: str, blame: str) -> None:
    assert Push(1, expected).blame == blame


PACKAGE = Package("sums", Path("sums"), "sums", "0.1.0", "", (), "", (), (), "v1", None, digest="d", hub_hash="h")


def refusal(folder: Path, *findings: dict[str, Any]) -> str:
    entry = {"name": "sums", "verdict": "pass", "digest": "d", "hub_hash": "h", "gates": dict.fromkeys(GATES, "pass")}
    wheel = {"sha256": "0" * 64, "filename": "sums-0.1.0-py3-none-any.whl"}
    path = folder / "validate.json"
    path.write_text(json.dumps({"environments": [{**entry, "wheel": wheel, "findings": findings}]}))
    return read_evidence(path)["sums"].refusal(PACKAGE)


@pytest.mark.parametrize("ignored", [None, "these results are ours"])
def test_passing_validation_from_results_is_refused(tmp_path: Path, ignored: str | None):
    finding = {"rule": "RWD100", "severity": "warning", "ignored": ignored}
    assert "rests on replies of a model" in refusal(tmp_path, finding)


def test_passing_validation_with_another_warning_is_accepted(tmp_path: Path):
    assert refusal(tmp_path, {"rule": "REC003", "severity": "warning", "ignored": None}) == ""
