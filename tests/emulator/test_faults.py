"""Requested faults of the emulator, and the state after them."""

from __future__ import annotations

import http.client
import urllib.error

import pytest
from emulator_client import Speaker
from envwright_emulator.behaviour import BehaviourRefused, parse_fault
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


def test_fault_that_happens_several_times_is_listed_as_it_was_given(hub: EmulatedHub) -> None:
    text = "POST /training/runs status code=503 times=3 skip=1"
    hub.break_with(text)
    assert hub.control("GET", "faults") == [{"fault": text, "fired": 0}]


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


@pytest.mark.parametrize("what", ["text", "html", "empty", "truncated", "list", "null"])
def test_garbage_fault_replaces_the_answer(hub: EmulatedHub, speaker: Speaker, what: str) -> None:
    hub.break_with(f"GET /environmentshub/*/*/status garbage what={what}")
    speaker.push()

    response = speaker("GET", "/environmentshub/acme/spelling/status")

    assert response.status == 200
    with pytest.raises((ValueError, TypeError, KeyError)):
        response.data  # noqa: B018
    assert speaker.latest() == "0.1.0"


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
    with pytest.raises(BehaviourRefused, match=part):
        parse_fault(text)
