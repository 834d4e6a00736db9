"""Secrets and variables, global and of an environment. Values are accepted and never stored."""

from __future__ import annotations

from typing import Any

from envwright_emulator.environments import environment_of_id
from envwright_emulator.hub import READ, HttpRefusal, Hub, HubRequest, HubResponse, now, route
from envwright_emulator.store import StoredDocument


@route("GET", "/secrets/", READ)
def listed(hub: Hub, request: HubRequest) -> HubResponse:
    """The names of the global secrets of the user, or of a team."""
    return HubResponse({"data": hub.store.all("secret", _scope(request))})


@route("POST", "/secrets/", READ, "a name that is taken is refused with 409")
def create(hub: Hub, request: HubRequest) -> HubResponse:
    """Make a global secret."""
    request.writer()
    return _created(hub, request, "secret", _scope(request))


@route("GET", "/secrets/{item}", READ)
def get(hub: Hub, request: HubRequest) -> HubResponse:
    """One global secret, without its value."""
    request.signed_in()
    return HubResponse({"data": _existing(hub, "secret", request.parts["item"])})


@route("PATCH", "/secrets/{item}", READ)
def change(hub: Hub, request: HubRequest) -> HubResponse:
    """Change a global secret."""
    request.writer()
    return _changed(hub, request, "secret")


@route("DELETE", "/secrets/{item}", READ)
def delete(hub: Hub, request: HubRequest) -> HubResponse:
    """Delete a global secret."""
    request.writer()
    return _deleted(hub, request, "secret")


@route("GET", "/environmentshub/{id}/secrets", READ)
def of_environment(hub: Hub, request: HubRequest) -> HubResponse:
    """The names of an environment's secrets, its own and the linked ones."""
    request.signed_in()
    return HubResponse({"data": hub.store.all("environment-secret", _environment(hub, request))})


@route("POST", "/environmentshub/{id}/secrets", READ)
def create_of_environment(hub: Hub, request: HubRequest) -> HubResponse:
    """Make a secret of an environment."""
    request.writer()
    return _created(hub, request, "environment-secret", _environment(hub, request))


@route("POST", "/environmentshub/{id}/secrets/link/{item}", READ)
def link(hub: Hub, request: HubRequest) -> HubResponse:
    """Let an environment see a global secret."""
    request.writer()
    secret = _existing(hub, "secret", request.parts["item"])
    linked = {**secret, "secretName": secret["name"], "linked": True}
    hub.store.put("environment-secret", secret["id"], linked, _environment(hub, request))
    return HubResponse({"data": linked})


@route("DELETE", "/environmentshub/{id}/secrets/link/{item}", READ)
def unlink(hub: Hub, request: HubRequest) -> HubResponse:
    """Take a global secret away from an environment."""
    request.writer()
    return _deleted(hub, request, "environment-secret")


@route("PATCH", "/environmentshub/{id}/secrets/{item}", READ)
def change_of_environment(hub: Hub, request: HubRequest) -> HubResponse:
    """Change a secret of an environment."""
    request.writer()
    return _changed(hub, request, "environment-secret")


@route("DELETE", "/environmentshub/{id}/secrets/{item}", READ)
def delete_of_environment(hub: Hub, request: HubRequest) -> HubResponse:
    """Delete a secret of an environment."""
    request.writer()
    return _deleted(hub, request, "environment-secret")


@route("GET", "/environmentshub/{id}/variables", READ)
def variables(hub: Hub, request: HubRequest) -> HubResponse:
    """An environment's variables; they are not secret and keep their values."""
    request.signed_in()
    return HubResponse({"data": hub.store.all("environment-variable", _environment(hub, request))})


@route("POST", "/environmentshub/{id}/variables", READ)
def create_variable(hub: Hub, request: HubRequest) -> HubResponse:
    """Make a variable of an environment."""
    request.writer()
    more = {"value": request.fields.get("value")}
    return _created(hub, request, "environment-variable", _environment(hub, request), more)


@route("PATCH", "/environmentshub/{id}/variables/{item}", READ)
def change_variable(hub: Hub, request: HubRequest) -> HubResponse:
    """Change a variable of an environment."""
    request.writer()
    return _changed(hub, request, "environment-variable", "value")


@route("DELETE", "/environmentshub/{id}/variables/{item}", READ)
def delete_variable(hub: Hub, request: HubRequest) -> HubResponse:
    """Delete a variable of an environment."""
    request.writer()
    return _deleted(hub, request, "environment-variable")


def _scope(request: HubRequest) -> str:
    account = request.signed_in()
    body = request.fields
    team = request.query.get("teamId") or body.get("teamId")
    return account.team_of(str(team)) if team else account.slug


def _environment(hub: Hub, request: HubRequest) -> str:
    return str(environment_of_id(hub, request.account, request.parts["id"])["id"])


def _created(hub: Hub, request: HubRequest, kind: str, parent: str, more: dict[str, Any] | None = None) -> HubResponse:
    name = request.text("name")
    if any(known["name"] == name for known in hub.store.all(kind, parent)):
        raise HttpRefusal(409, f"'{name}' already exists")
    dated = {"createdAt": now(), "updatedAt": now()}
    made: StoredDocument = {
        "id": request.named("item"),
        "name": name,
        "description": request.fields.get("description"),
        **dated,
    }
    hub.store.put(kind, made["id"], {**made, **(more or {})}, parent)
    return HubResponse({"data": {**made, **(more or {})}})


def _existing(hub: Hub, kind: str, id: str) -> StoredDocument:
    found = hub.store.get(kind, id)
    if found is None:
        raise HttpRefusal(404, "Not Found")
    return found


def _changed(hub: Hub, request: HubRequest, kind: str, *more: str) -> HubResponse:
    found = _existing(hub, kind, request.parts["item"])
    sent = request.fields
    found |= {key: sent[key] for key in ("name", "description", *more) if sent.get(key)} | {"updatedAt": now()}
    hub.store.put(kind, found["id"], found)
    return HubResponse({"data": found})


def _deleted(hub: Hub, request: HubRequest, kind: str) -> HubResponse:
    hub.store.delete(kind, _existing(hub, kind, request.parts["item"])["id"])
    return HubResponse(status=204)
