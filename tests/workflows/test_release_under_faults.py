"""Every way in which the Hub can fail, at every step of a push, with the real CLI: the release converges, and publishes
once."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from envwright.builds.wheel import built_wheel
from envwright.packages.repository import Repository
from envwright.release.evidence import ValidationEvidence
from envwright.release.ledger import LedgerEntry
from envwright.release.plan import make_plan
from envwright.release.publishable import Proven
from envwright.release.publishing import Verified
from envwright.release.release import Release
from envwright.rules.engine import GATES
from envwright.system.retry_policy import HUB_PUSH
from envwright.system.workspace import Workspace
from envwright_emulator.server import EmulatedHub, emulator
from merged_repository import Origin, origin_with

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

NAME = "reverse-text"
STEPS = {
    "resolve": "POST /environmentshub/resolve",
    "wheel": "POST /environmentshub/*/wheels",
    "wheel upload": "PUT /uploads/whl_*",
    "wheel finalize": "POST /environmentshub/*/wheels/*/finalize",
    "source": "POST /environmentshub/*/versions",
    "source upload": "PUT /uploads/ver_*",
    "source finalize": "POST /environmentshub/*/versions/*/finalize",
}
MODES = {
    "an error": "status code=503",
    "an error after the effect": "status code=500 effect=done",
    "too many requests": "status code=429 retry-after=1",
    "a reset": "reset effect=none",
    "a lost answer": "reset",
    "half an answer": "reset after=9",
    "garbage": "garbage",
    "an effect that shows late": "later reads=2",
    "an error, and an effect that shows late": "later reads=3 answer=504",
}
QUICK = replace(HUB_PUSH, first_seconds=0.01, longest_seconds=0.02)
MOST_RELEASES = 3


class Publisher:
    """Releases one environment of a repository, on evidence for its wheel, any number of times."""

    def __init__(self, origin: Origin) -> None:
        self.root, self.stop = origin.work, threading.Event()
        self.workspace = Workspace(self.root)
        self.wanted = Repository.load(self.root, [NAME]).packages[NAME].hub_hash

    def release(self) -> LedgerEntry:
        """Plan and apply, and return the final state of the environment."""
        planned = make_plan(self.root, [NAME], None, self.stop)
        assert planned.prime
        assert planned.hub
        repository = Repository.load(self.root, [NAME])
        package = repository.packages[NAME]
        made = built_wheel(package, self.workspace, self.stop)
        proof = ValidationEvidence(
            NAME, "pass", package.digest, package.hub_hash, dict.fromkeys(GATES, "pass"), made.wheel.sha256,
            filename=made.wheel.filename,
        )  # fmt: skip
        release = Release(
            repository=repository,
            prime=planned.prime,
            access=planned.access,
            identity=planned.hub.identity,
            proven=Proven({NAME: proof}, "", lambda *_: made.overlay.parent / made.wheel.filename, {}, []),
            uncommitted={},
            published=self.root / "reports/published",
            begin_push=lambda _: None,
            stop=self.stop,
            report=lambda _: None,
            retry=QUICK,
        )
        (entry,) = release.apply(planned.plan, lambda _: None)
        return entry

    def until_there(self) -> list[str]:
        """Release again until nothing is left to do, and return the result of each release."""
        results = []
        for _ in range(MOST_RELEASES):
            last = self.release()
            results.append(last.result)
            assert "envwright failed here" not in last.message, last.message
            if last.result in ("unchanged", "wedged"):
                break
        return results


@pytest.fixture(scope="module")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> Publisher:
    return Publisher(origin_with(tmp_path_factory.mktemp("repository"), "reverse_text"))


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedHub]:
    with emulator(tmp_path_factory.mktemp("hub"), teams=["acme"]) as running:
        yield running


@pytest.fixture
def hub(serving: EmulatedHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedHub]:
    """Empty, and the one that the CLI finds; another test downloads and loads what was published."""

    class Content:
        def __init__(self, *_: object) -> None:
            pass

        def fetch(self, _desired: object, proven: ValidationEvidence, _folder: object) -> Verified:
            return Verified(sound=True, message="", sha256=proven.wheel)

    for name, value in serving.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("envwright.release.release.Verifier", Content)
    serving.control("POST", "reset")
    yield serving
    serving.assume()


def _published(hub: EmulatedHub, publisher: Publisher) -> None:
    """Exactly what is wanted is there, once."""
    (environment,) = hub.state()["environment"]
    versions = [version for version in hub.state()["version"] if version["complete"]]
    assert [version["content_hash"] for version in versions] == [publisher.wanted]
    assert environment["visibility"] == "PRIVATE"


@pytest.mark.parametrize(("step", "mode"), itertools.product(STEPS, MODES))
def test_release_converges_after_every_fault(hub: EmulatedHub, publisher: Publisher, step: str, mode: str) -> None:
    hub.break_with(f"{STEPS[step]} {MODES[mode]}")

    results = publisher.until_there()

    assert hub.control("GET", "faults")[0]["fired"] == 1
    assert results[-1] == "unchanged", results
    _published(hub, publisher)


@pytest.mark.parametrize("after", [0, 500])
@pytest.mark.parametrize("step", ["wheel upload", "source upload"])
def test_release_converges_after_a_broken_upload(hub: EmulatedHub, publisher: Publisher, step: str, after: int) -> None:
    hub.break_with(f"{STEPS[step]} cut-upload after={after}")

    assert publisher.until_there()[-1] == "unchanged"
    _published(hub, publisher)


def test_release_wedged_half_is_reported(hub: EmulatedHub, publisher: Publisher) -> None:
    hub.assume("halves=wedged")
    hub.break_with(f"{STEPS['source']} status code=503")

    assert publisher.until_there()[-1] == "wedged"
    assert [version for version in hub.state()["version"] if version["complete"]] == []


@pytest.mark.parametrize(
    "answer", ["same-content=400", "same-content=422", "paging=ignored", "page-limit=1", "default-visibility=PUBLIC"]
)
def test_release_succeeds_with_every_assumption(hub: EmulatedHub, publisher: Publisher, answer: str) -> None:
    hub.assume(answer)
    hub.break_with(f"{STEPS['wheel finalize']} reset", f"{STEPS['source finalize']} reset")

    assert publisher.until_there()[-1] == "unchanged"
    _published(hub, publisher)
