"""The Hub's state after each step of a push."""

from __future__ import annotations

import hashlib

from emulator_client import STEPS, Speaker
from envwright_emulator.hub import READ_ONLY_KEY
from envwright_emulator.server import EmulatedHub


def test_push_publishes_version_hash_and_visibility(hub: EmulatedHub, speaker: Speaker) -> None:
    assert speaker.push().status == 200

    status = speaker("GET", "/environmentshub/acme/spelling/status").data

    assert status["visibility"] == "PRIVATE"
    assert status["latest_version"]["semantic_version"] == "0.1.0"
    assert status["latest_version"]["content_hash"] == hashlib.sha256(b"one").hexdigest()
    assert len(hub.writes()) == len(STEPS)


def test_push_same_content_is_refused_as_existing(speaker: Speaker) -> None:
    speaker.push()

    response = speaker.push()

    assert response.status == 409
    assert "content hash" in response.json["detail"]
    assert "already exists with the same content" in response.json["detail"]


def test_push_wedged_half_needs_another_version(hub: EmulatedHub, speaker: Speaker) -> None:
    hub.assume("halves=wedged")
    speaker.push(until="source")

    assert speaker.push().status == 409
    assert speaker.latest() is None
    assert speaker.push(version="0.1.1", content="two").status == 200


def test_push_visibility_follows_the_assumption(hub: EmulatedHub, speaker: Speaker) -> None:
    speaker.push(visibility="PRIVATE")
    speaker.push(version="0.2.0", content="two", visibility="PUBLIC")
    assert speaker("GET", "/environmentshub/acme/spelling/status").data["visibility"] == "PUBLIC"

    hub.assume("visibility=kept")
    speaker.push(version="0.3.0", content="three", visibility="PRIVATE")
    assert speaker("GET", "/environmentshub/acme/spelling/status").data["visibility"] == "PUBLIC"


def test_private_environment_is_invisible_to_others(hub: EmulatedHub, speaker: Speaker) -> None:
    speaker.push(visibility="PRIVATE")
    speaker.push("open", visibility="PUBLIC")

    for stranger in (Speaker(hub.url), Speaker(hub.url, "wrong-key")):
        assert stranger("GET", "/environmentshub/acme/spelling/status").status == 404
        assert stranger("GET", "/environmentshub/acme/open/status").status == 200
        assert stranger("GET", "/user/whoami").status == 401


def test_read_only_key_writes_nothing(hub: EmulatedHub, speaker: Speaker) -> None:
    assert Speaker(hub.url, READ_ONLY_KEY).push().status == 403
    assert speaker.push(owner="strangers").status == 403
    assert hub.state()["environment"] == []


def test_download_equals_the_upload(speaker: Speaker) -> None:
    speaker.push()
    details = speaker("GET", "/environmentshub/acme/spelling/@0.1.0").data

    assert speaker.send("GET", details["wheel_url"], None).content == b"wheel spelling one"
    assert Speaker(speaker.url).send("GET", details["wheel_url"], None).status == 404
    index = speaker.send("GET", f"{details['simple_index_url']}/spelling/", None).content.decode()
    assert f"#sha256={hashlib.sha256(b'wheel spelling one').hexdigest()}" in index


def test_lists_have_pages_of_at_most_the_limit(hub: EmulatedHub, speaker: Speaker) -> None:
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


def test_change_of_an_evaluation_reaches_no_other(hub: EmulatedHub, speaker: Speaker) -> None:
    speaker.push()
    environment = speaker("POST", "/environmentshub/resolve", {"name": "spelling", "owner_slug": "acme"}).data["id"]
    made = [speaker("POST", "/evaluations/", {"name": name, "environments": [environment]}).json for name in "ab"]
    first, second = (each["evaluation_id"] for each in made)
    changed = speaker("PUT", f"/evaluations/{first}", {"evaluation_id": second, "user_id": "me", "name": "c", "hub": 1})
    assert changed.status == 200
    assert [each["name"] for each in hub.state()["evaluation"]] == ["c", "b"]
    assert speaker("PUT", f"/evaluations/{first}", ["x"]).status == 422
