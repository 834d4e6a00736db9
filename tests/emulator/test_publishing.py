"""What a push leaves behind, step by step."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from envops.emulator.hub import READ_ONLY_KEY
from envops.emulator.server import EmulatedHub, emulator
from speaking import STEPS, Speaker


def test_a_push_publishes_a_version_with_its_hash_and_visibility(hub: EmulatedHub, speaker: Speaker) -> None:
    assert speaker.push().status == 200

    status = speaker("GET", "/environmentshub/acme/spelling/status").data

    assert status["visibility"] == "PRIVATE"
    assert status["latest_version"]["semantic_version"] == "0.1.0"
    assert status["latest_version"]["content_hash"] == hashlib.sha256(b"one").hexdigest()
    assert len(hub.writes()) == len(STEPS)


def test_the_same_content_twice_is_refused_with_the_words_that_scripts_look_for(speaker: Speaker) -> None:
    speaker.push()

    said = speaker.push()

    assert said.status == 409
    assert "content hash" in said.json["detail"]
    assert "already exists with the same content" in said.json["detail"]


def test_a_version_is_never_given_other_content(speaker: Speaker) -> None:
    speaker.push()

    said = speaker.push(content="two")

    assert (said.status, speaker.latest()) == (409, "0.1.0")
    assert speaker("GET", "/environmentshub/acme/spelling/versions").data["versions"][0]["sha256"] == (
        hashlib.sha256(b"one").hexdigest()
    )


@pytest.mark.parametrize("until", STEPS[1:])
def test_a_push_that_broke_off_shows_no_version_and_can_be_made_again(speaker: Speaker, until: str) -> None:
    speaker.push(until=until)
    assert speaker.latest() is None

    assert speaker.push().status == 200
    assert speaker.latest() == "0.1.0"


def test_where_halves_are_wedged_only_another_version_gets_out(hub: EmulatedHub, speaker: Speaker) -> None:
    hub.assume("halves=wedged")
    speaker.push(until="source")

    assert speaker.push().status == 409
    assert speaker.latest() is None
    assert speaker.push(version="0.1.1", content="two").status == 200


def test_whether_a_push_changes_the_visibility_is_an_open_question(hub: EmulatedHub, speaker: Speaker) -> None:
    speaker.push(visibility="PRIVATE")
    speaker.push(version="0.2.0", content="two", visibility="PUBLIC")
    assert speaker("GET", "/environmentshub/acme/spelling/status").data["visibility"] == "PUBLIC"

    hub.assume("visibility=kept")
    speaker.push(version="0.3.0", content="three", visibility="PRIVATE")
    assert speaker("GET", "/environmentshub/acme/spelling/status").data["visibility"] == "PUBLIC"


def test_a_private_environment_is_not_there_for_others(hub: EmulatedHub, speaker: Speaker) -> None:
    speaker.push(visibility="PRIVATE")
    speaker.push("open", visibility="PUBLIC")

    for stranger in (Speaker(hub.url), Speaker(hub.url, "wrong-key")):
        assert stranger("GET", "/environmentshub/acme/spelling/status").status == 404
        assert stranger("GET", "/environmentshub/acme/open/status").status == 200
        assert stranger("GET", "/user/whoami").status == 401


def test_a_key_without_rights_writes_nothing(hub: EmulatedHub, speaker: Speaker) -> None:
    assert Speaker(hub.url, READ_ONLY_KEY).push().status == 403
    assert speaker.push(owner="strangers").status == 403
    assert hub.state()["environment"] == []


def test_what_was_uploaded_is_what_is_downloaded(speaker: Speaker) -> None:
    speaker.push()
    details = speaker("GET", "/environmentshub/acme/spelling/@0.1.0").data

    assert speaker.send("GET", details["wheel_url"], None).content == b"wheel spelling one"
    assert Speaker(speaker.url).send("GET", details["wheel_url"], None).status == 404
    index = speaker.send("GET", f"{details['simple_index_url']}/spelling/", None).content.decode()
    assert f"#sha256={hashlib.sha256(b'wheel spelling one').hexdigest()}" in index


def test_an_upload_that_is_not_what_was_announced_is_never_finalized(speaker: Speaker) -> None:
    said = speaker.push(until="wheel-upload")
    speaker.send("PUT", said.data["upload_url"], b"cut o", "application/octet-stream")
    environment = speaker("POST", "/environmentshub/resolve", {"name": "spelling", "owner_slug": "acme"}).data["id"]

    finalized = speaker("POST", f"/environmentshub/{environment}/wheels/{said.data['wheel_id']}/finalize")

    assert finalized.status == 400


def test_lists_come_in_pages_of_at_most_the_limit(hub: EmulatedHub, speaker: Speaker) -> None:
    for number in range(5):
        speaker.push(f"spelling-{number}", until="wheel")
    pages = [
        speaker("GET", f"/environmentshub/?owner=acme&sort_by=name&sort_order=asc&limit=3&offset={at}") for at in (0, 3)
    ]
    assert [[row["name"][-1] for row in page.data] for page in pages] == [["0", "1", "2"], ["3", "4"]]
    assert pages[0].json["total_count"] == 5

    hub.assume("page-limit=2")
    assert len(speaker("GET", "/environmentshub/?owner=acme&limit=3").data) == 2
    hub.assume("paging=ignored")
    assert len(speaker("GET", "/environmentshub/?owner=acme&limit=3").data) == 5


def test_state_is_there_after_a_restart(tmp_path: Path) -> None:
    with emulator(tmp_path, teams=["acme"]) as first:
        Speaker(first.url, first.key).push(until="source")
        requests = len(first.journal())
    with emulator(tmp_path, teams=["acme"]) as second:
        speaker = Speaker(second.url, second.key)
        assert speaker.push().status == 200
        assert speaker.latest() == "0.1.0"
        assert len(second.journal()) > requests
