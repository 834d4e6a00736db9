"""Secrets and variables, global and of an environment. Values are taken and never kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envops.emulator.accounts import signed_in, writer
from envops.emulator.endpoints import READ, Asked, Refused, Reply, endpoint, now
from envops.emulator.environments import environment_of_id

if TYPE_CHECKING:
    from envops.emulator.hub import Hub
    from envops.emulator.store import Document


@endpoint("GET", "/secrets/", READ)
def listed(hub: Hub, asked: Asked) -> Reply:
    """The names of the global secrets of the user, or of a team."""
    return Reply({"data": hub.store.all("secret", _scope(asked))})


@endpoint("POST", "/secrets/", READ, "a name that is taken is refused with 409")
def create(hub: Hub, asked: Asked) -> Reply:
    """Make a global secret."""
    writer(asked)
    return _created(hub, asked, "secret", _scope(asked))


@endpoint("GET", "/secrets/{item}", READ)
def get(hub: Hub, asked: Asked) -> Reply:
    """One global secret, without its value."""
    signed_in(asked)
    return Reply({"data": _existing(hub, "secret", asked.parts["item"])})


@endpoint("PATCH", "/secrets/{item}", READ)
def change(hub: Hub, asked: Asked) -> Reply:
    """Change a global secret."""
    writer(asked)
    return _changed(hub, asked, "secret")


@endpoint("DELETE", "/secrets/{item}", READ)
def delete(hub: Hub, asked: Asked) -> Reply:
    """Delete a global secret."""
    writer(asked)
    return _deleted(hub, asked, "secret")


@endpoint("GET", "/environmentshub/{id}/secrets", READ)
def of_environment(hub: Hub, asked: Asked) -> Reply:
    """The names of an environment's secrets, its own and the linked ones."""
    signed_in(asked)
    return Reply({"data": hub.store.all("environment-secret", _environment(hub, asked))})


@endpoint("POST", "/environmentshub/{id}/secrets", READ)
def create_of_environment(hub: Hub, asked: Asked) -> Reply:
    """Make a secret of an environment."""
    writer(asked)
    return _created(hub, asked, "environment-secret", _environment(hub, asked))


@endpoint("POST", "/environmentshub/{id}/secrets/link/{item}", READ)
def link(hub: Hub, asked: Asked) -> Reply:
    """Let an environment see a global secret."""
    writer(asked)
    secret = _existing(hub, "secret", asked.parts["item"])
    linked = {**secret, "secretName": secret["name"], "linked": True}
    hub.store.put("environment-secret", secret["id"], linked, _environment(hub, asked))
    return Reply({"data": linked})


@endpoint("DELETE", "/environmentshub/{id}/secrets/link/{item}", READ)
def unlink(hub: Hub, asked: Asked) -> Reply:
    """Take a global secret away from an environment."""
    writer(asked)
    return _deleted(hub, asked, "environment-secret")


@endpoint("PATCH", "/environmentshub/{id}/secrets/{item}", READ)
def change_of_environment(hub: Hub, asked: Asked) -> Reply:
    """Change a secret of an environment."""
    writer(asked)
    return _changed(hub, asked, "environment-secret")


@endpoint("DELETE", "/environmentshub/{id}/secrets/{item}", READ)
def delete_of_environment(hub: Hub, asked: Asked) -> Reply:
    """Delete a secret of an environment."""
    writer(asked)
    return _deleted(hub, asked, "environment-secret")


@endpoint("GET", "/environmentshub/{id}/variables", READ)
def variables(hub: Hub, asked: Asked) -> Reply:
    """An environment's variables; they are not secret and keep their values."""
    signed_in(asked)
    return Reply({"data": hub.store.all("environment-variable", _environment(hub, asked))})


@endpoint("POST", "/environmentshub/{id}/variables", READ)
def create_variable(hub: Hub, asked: Asked) -> Reply:
    """Make a variable of an environment."""
    writer(asked)
    more = {"value": asked.body.get("value")} if isinstance(asked.body, dict) else {}
    return _created(hub, asked, "environment-variable", _environment(hub, asked), more)


@endpoint("PATCH", "/environmentshub/{id}/variables/{item}", READ)
def change_variable(hub: Hub, asked: Asked) -> Reply:
    """Change a variable of an environment."""
    writer(asked)
    return _changed(hub, asked, "environment-variable", "value")


@endpoint("DELETE", "/environmentshub/{id}/variables/{item}", READ)
def delete_variable(hub: Hub, asked: Asked) -> Reply:
    """Delete a variable of an environment."""
    writer(asked)
    return _deleted(hub, asked, "environment-variable")


def _scope(asked: Asked) -> str:
    account = signed_in(asked)
    body = asked.body if isinstance(asked.body, dict) else {}
    team = asked.query.get("teamId") or body.get("teamId")
    return account.team_of(str(team)) if team else account.slug


def _environment(hub: Hub, asked: Asked) -> str:
    return str(environment_of_id(hub, asked.account, asked.parts["id"])["id"])


def _created(hub: Hub, asked: Asked, kind: str, parent: str, more: dict[str, Any] | None = None) -> Reply:
    name = asked.text("name")
    if any(known["name"] == name for known in hub.store.all(kind, parent)):
        raise Refused(409, f"'{name}' already exists")
    dated = {"createdAt": now(), "updatedAt": now()}
    made = {"id": asked.named("item"), "name": name, "description": asked.body.get("description"), **dated}
    hub.store.put(kind, made["id"], {**made, **(more or {})}, parent)
    return Reply({"data": {**made, **(more or {})}})


def _existing(hub: Hub, kind: str, id: str) -> Document:
    found = hub.store.get(kind, id)
    if found is None:
        raise Refused(404, "Not Found")
    return found


def _changed(hub: Hub, asked: Asked, kind: str, *more: str) -> Reply:
    found = _existing(hub, kind, asked.parts["item"])
    sent = asked.body if isinstance(asked.body, dict) else {}
    found |= {key: sent[key] for key in ("name", "description", *more) if sent.get(key)} | {"updatedAt": now()}
    hub.store.put(kind, found["id"], found)
    return Reply({"data": found})


def _deleted(hub: Hub, asked: Asked, kind: str) -> Reply:
    hub.store.delete(kind, _existing(hub, kind, asked.parts["item"])["id"])
    return Reply(status=204)
