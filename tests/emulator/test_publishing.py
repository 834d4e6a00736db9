"""The Hub's state after each step of a push."""

from __future__ import annotations

from emulator_client import Speaker
from envwright_emulator.hub import READ_ONLY_KEY
from envwright_emulator.server import EmulatedHub


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


def test_change_of_an_evaluation_reaches_no_other(hub: EmulatedHub, speaker: Speaker) -> None:
    speaker.push()
    environment = speaker("POST", "/environmentshub/resolve", {"name": "spelling", "owner_slug": "acme"}).data["id"]
    made = [speaker("POST", "/evaluations/", {"name": name, "environments": [environment]}).json for name in "ab"]
    first, second = (each["evaluation_id"] for each in made)
    changed = speaker("PUT", f"/evaluations/{first}", {"evaluation_id": second, "user_id": "me", "name": "c", "hub": 1})
    assert changed.status == 200
    assert [each["name"] for each in hub.state()["evaluation"]] == ["c", "b"]
    assert speaker("PUT", f"/evaluations/{first}", ["x"]).status == 422
