"""Requested faults of the emulator, and the state after them."""

from __future__ import annotations

import http.client
import urllib.error

import pytest
from emulator_client import Speaker
from envwright_emulator.faults import FaultSyntaxError, parse_fault
from envwright_emulator.server import EmulatedHub

FINALIZE = "POST /environmentshub/*/versions/*/finalize"
BROKEN = (urllib.error.URLError, http.client.HTTPException, ConnectionError)


@pytest.mark.parametrize(("effect", "left"), [("none", None), ("done", "0.1.0")])
def test_status_fault_with_and_without_effect(
    hub: EmulatedHub, speaker: Speaker, effect: str, left: str | None
) -> None:
    hub.break_with(f"{FINALIZE} status code=503 effect={effect}")

    assert speaker.push().status == 503
    assert speaker.latest() == left
    assert [row["fault"] for row in hub.journal() if "fault" in row] == [f"{FINALIZE} status code=503 effect={effect}"]


@pytest.mark.parametrize("after", [0, 10])
@pytest.mark.parametrize(("effect", "left"), [("none", None), ("done", "0.1.0")])
def test_reset_fault_ends_the_connection_within_the_answer(
    hub: EmulatedHub, speaker: Speaker, after: int, effect: str, left: str | None
) -> None:
    hub.break_with(f"{FINALIZE} reset after={after} effect={effect}")

    with pytest.raises(BROKEN):
        speaker.push()
    assert speaker.latest() == left


def test_cut_upload_fault_leaves_nothing(hub: EmulatedHub, speaker: Speaker) -> None:
    hub.break_with("PUT /uploads/* cut-upload after=4")

    with pytest.raises(BROKEN):
        speaker.push()
    assert speaker.push().status == 200


def test_later_fault_shows_after_some_reads(hub: EmulatedHub, speaker: Speaker) -> None:
    hub.break_with(f"{FINALIZE} later reads=2")

    assert speaker.push().status == 200
    assert [speaker.latest(), speaker.latest(), speaker.latest()] == [None, None, "0.1.0"]


def test_later_fault_with_an_error_shows_later(hub: EmulatedHub, speaker: Speaker) -> None:
    hub.break_with(f"{FINALIZE} later seconds=0 answer=504")

    assert speaker.push().status == 504
    assert speaker.latest() == "0.1.0"


def test_later_fault_survives_a_push_in_between(hub: EmulatedHub, speaker: Speaker) -> None:
    hub.break_with(f"{FINALIZE} later reads=1")
    speaker.push()

    assert speaker.push().status == 200
    assert speaker.latest() == "0.1.0"
    assert speaker.latest() == "0.1.0"
    assert len(speaker("GET", "/environmentshub/acme/spelling/versions").data["versions"]) == 1


@pytest.mark.parametrize("what", ["text", "html", "empty", "truncated", "list", "null"])
def test_garbage_fault_replaces_the_answer(hub: EmulatedHub, speaker: Speaker, what: str) -> None:
    hub.break_with(f"GET /environmentshub/*/*/status garbage what={what}")
    speaker.push()

    response = speaker("GET", "/environmentshub/acme/spelling/status")

    assert response.status == 200
    with pytest.raises((ValueError, TypeError, KeyError)):
        response.data  # noqa: B018
    assert speaker.latest() == "0.1.0"


def test_fault_respects_times_and_skip(hub: EmulatedHub, speaker: Speaker) -> None:
    hub.break_with("GET /user/whoami status code=429 retry-after=7 skip=1 times=2")

    response = [speaker("GET", "/user/whoami") for _ in range(5)]

    assert [each.status for each in response] == [200, 429, 429, 200, 200]
    assert response[1].headers["Retry-After"] == "7"


def test_first_matching_fault_happens(hub: EmulatedHub, speaker: Speaker) -> None:
    hub.break_with("* ** status code=500 times=1", "GET /user/* status code=502 times=always")

    assert [speaker("GET", "/user/whoami").status for _ in range(3)] == [500, 502, 502]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("GET /user/whoami", "is not a valid fault"),
        ("GET /user/whoami explode", "there is no fault explode"),
        ("GET /user/whoami status after=3", "has no setting after=3"),
        ("GET /user/whoami status code=many", "many is not a number"),
        ("GET /user/whoami garbage what=soup", "what= is one of"),
        ("GET /user/whoami reset effect=maybe", "effect= is done or none"),
    ],
)
def test_parse_fault_reports_the_valid_forms(text: str, part: str) -> None:
    with pytest.raises(FaultSyntaxError, match=part):
        parse_fault(text)
