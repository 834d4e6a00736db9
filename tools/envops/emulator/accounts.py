"""Who asks: keys, users, teams, and what they may see and write."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envops.emulator.endpoints import MEASURED, READ, Asked, Refused, Reply, endpoint

if TYPE_CHECKING:
    from envops.emulator.hub import Hub

KEY = "emulated-key"
READ_ONLY_KEY = "emulated-key-read-only"


@dataclass(frozen=True)
class Account:
    """A key's user and the teams that they belong to."""

    slug: str
    teams: Sequence[str] = ()
    writes: bool = True

    @property
    def id(self) -> str:
        return _id("user", self.slug)

    @property
    def owners(self) -> tuple[str, ...]:
        return (self.slug, *self.teams)

    def team_of(self, named: str) -> str:
        """The slug of a team that is named by its slug or its id. Raises `Refused` for a foreign one."""
        for slug in self.teams:
            if named in (slug, team_id(slug)):
                return slug
        raise Refused(403, "You are not a member of this team")


@dataclass(frozen=True)
class Accounts:
    """Which keys there are."""

    by_key: Mapping[str, Account] = field(default_factory=dict)

    @classmethod
    def usual(cls, user: str, teams: tuple[str, ...], key: str = KEY) -> Accounts:
        """One user with a key for everything and one for reading."""
        return cls({key: Account(user, teams), READ_ONLY_KEY: Account(user, teams, writes=False)})

    def of(self, authorization: str) -> Account | None:
        return self.by_key.get(authorization.removeprefix("Bearer ").strip())


def team_id(slug: str) -> str:
    """A team's id, in the shape that the CLI knows ids by."""
    return _id("team", slug)


def signed_in(asked: Asked) -> Account:
    """Whose key it is. Raises `Refused` (401) without a known one."""
    if asked.account is None:
        raise Refused(401, "Invalid or missing API key")
    return asked.account


def writer(asked: Asked) -> Account:
    """Whose key it is, where it may write. Raises `Refused`."""
    account = signed_in(asked)
    if not account.writes:
        raise Refused(403, "This API key has no write permission")
    return account


@endpoint("GET", "/user/whoami", MEASURED)
def whoami(_hub: Hub, asked: Asked) -> Reply:
    """Who the key belongs to."""
    account = signed_in(asked)
    if team := asked.query.get("teamId"):
        account.team_of(team)
    rights = {"read": True, "write": account.writes}
    scope = {"environments": rights, "training": rights, "evaluations": rights, "secrets": rights}
    about = {
        "id": account.id,
        "slug": account.slug,
        "name": account.slug.title(),
        "email": f"{account.slug}@example.org",
    }
    return Reply({"data": {**about, "scope": scope, "account_limits": None, "key_limits": None}})


@endpoint("GET", "/user/teams", READ)
def teams(hub: Hub, asked: Asked) -> Reply:
    """The teams of the key's user, page by page."""
    account = signed_in(asked)
    found: list[dict[str, Any]] = [
        {"teamId": team_id(slug), "name": slug.title(), "slug": slug, "role": "ADMIN", "createdAt": hub.began}
        for slug in account.teams
    ]
    start, limit = asked.number_of("offset", 0), asked.number_of("limit", 100)
    return Reply({"data": found[start : start + limit], "total_count": len(found)})


def _id(kind: str, slug: str) -> str:
    return "c" + hashlib.sha256(f"{kind} {slug}".encode()).hexdigest()[:24]
