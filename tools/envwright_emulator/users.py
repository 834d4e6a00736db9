"""The user of the key, and its teams."""

from __future__ import annotations

from typing import Any

from envwright_emulator.hub import ASSUMED, MEASURED, READ, HttpRefusal, Hub, HubRequest, HubResponse, route, team_id


@route("GET", "/user/whoami", MEASURED)
def whoami(_hub: Hub, request: HubRequest) -> HubResponse:
    """The user of the key."""
    account = request.signed_in()
    if team := request.query.get("teamId"):
        account.team_of(team)
    rights = {"read": True, "write": account.writes}
    scope = {"environments": rights, "training": rights, "evaluations": rights, "secrets": rights}
    about = {
        "id": account.id,
        "slug": account.slug,
        "name": account.slug.title(),
        "email": f"{account.slug}@example.org",
    }
    return HubResponse({"data": {**about, "scope": scope, "account_limits": None, "key_limits": None}})


@route("GET", "/user/teams", READ)
def teams(hub: Hub, request: HubRequest) -> HubResponse:
    """The teams of the key's user, page by page."""
    account = request.signed_in()
    found: list[dict[str, Any]] = [
        {"teamId": team_id(slug), "name": slug.title(), "slug": slug, "role": "ADMIN", "createdAt": hub.began}
        for slug in account.teams
    ]
    start, limit = request.number_of("offset", 0), request.number_of("limit", 100)
    return HubResponse({"data": found[start : start + limit], "total_count": len(found)})


@route("PATCH", "/user/slug", ASSUMED, "users of the emulator have their name")
def set_slug(_hub: Hub, request: HubRequest) -> HubResponse:
    """Choose a user name; always taken here."""
    request.writer()
    raise HttpRefusal(409, "This username is already taken")
