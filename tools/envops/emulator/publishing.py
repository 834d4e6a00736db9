"""A push: resolve, wheel, upload, finalize, source, upload, finalize, in the order that the CLI has."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from envops.emulator.accounts import Account, writer
from envops.emulator.endpoints import ASSUMED, MEASURED, READ, Asked, Refused, Reply, endpoint, now
from envops.emulator.environments import environment_of_id, published, version_number

if TYPE_CHECKING:
    from envops.emulator.hub import Hub
    from envops.emulator.store import Document


@endpoint(
    "POST",
    "/environmentshub/resolve",
    MEASURED,
    "an owner that is none of the key's is refused with 403",
    "visibility: whether another visibility is taken over (--assume visibility=kept)",
    "default_visibility: what an environment gets without one",
)
def resolve(hub: Hub, asked: Asked) -> Reply:
    """Find an environment by name and owner, or make it; the first step of a push."""
    account, name = writer(asked), asked.text("name")
    owner = _owner(account, asked.body)
    visibility = asked.body.get("visibility")
    if visibility not in (None, "PUBLIC", "PRIVATE"):
        raise Refused(422, [{"loc": ["body", "visibility"], "msg": "Input should be 'PUBLIC' or 'PRIVATE'"}])
    found = hub.environment(owner, name)
    environment = found or {
        "id": asked.named("env"),
        "owner": owner,
        "name": name,
        "visibility": visibility or hub.behaviour.default_visibility,
        "created_at": now(),
        "updated_at": now(),
    }
    if visibility and hub.behaviour.visibility == "changed":
        environment["visibility"] = visibility
    hub.store.put("environment", f"{owner}/{name}", environment)
    hub.store.put("address", environment["id"], {"owner": owner, "name": name})
    return Reply({"data": {"id": environment["id"], "created": found is None, "owner": {"name": owner}}})


def _owner(account: Account, body: dict[str, Any]) -> str:
    if owner := body.get("owner_slug"):
        if owner not in account.owners:
            raise Refused(403, f"You do not have permission to publish environments for '{owner}'")
        return str(owner)
    if team := body.get("team_slug") or body.get("team_id"):
        return account.team_of(str(team))
    return account.slug


@endpoint("POST", "/environmentshub/lookup", READ)
def lookup(hub: Hub, asked: Asked) -> Reply:
    """Whether an environment with this id exists."""
    return Reply({"data": {"id": environment_of_id(hub, asked.account, asked.text("id"))["id"]}})


@endpoint(
    "POST",
    "/environmentshub/{id}/wheels",
    MEASURED,
    "same_content: the status with which published content is refused (the words are those that CI scripts look for)",
    "a version that is published with other content is refused with 409",
    "a wheel that is there already is not asked for again (upload_url is null, as the CLI allows)",
    "halves: whether a wheel without its source may be pushed again (--assume halves=wedged)",
)
def begin_wheel(hub: Hub, asked: Asked) -> Reply:
    """Announce a wheel; answers where to upload it."""
    environment = _own(hub, asked)
    content, sha256 = asked.text("content_hash"), asked.text("sha256")
    _refuse_published(hub, environment, content, asked.text("semantic_version"))
    wheel_id = _derived("whl", environment["id"], content, sha256)
    known = hub.store.get("wheel", wheel_id)
    if known and known["complete"]:
        if hub.behaviour.halves == "wedged":
            raise _conflict(hub, content)
        return Reply({"data": {"wheel_id": wheel_id, "upload_url": None}})
    about = {key: asked.body.get(key) for key in ("filename", "size", "semantic_version", "metadata", "runtime_hint")}
    wheel = {"id": wheel_id, "content_hash": content, "sha256": sha256, "complete": False, "created_at": now(), **about}
    hub.store.put("wheel", wheel_id, wheel, parent=environment["id"])
    return Reply({"data": {"wheel_id": wheel_id, "upload_url": _upload_address(asked, wheel_id)}})


@endpoint("POST", "/environmentshub/{id}/wheels/{wheel}/finalize", MEASURED, "what was uploaded is checked by its hash")
def end_wheel(hub: Hub, asked: Asked) -> Reply:
    """Say that a wheel is uploaded."""
    environment = _own(hub, asked)
    wheel = _child(hub, "wheel", asked.parts["wheel"])
    _check_upload(hub, wheel)
    hub.store.put("wheel", wheel["id"], {**wheel, "complete": True}, parent=environment["id"])
    return Reply({"data": {"success": True}})


@endpoint(
    "POST",
    "/environmentshub/{id}/versions",
    MEASURED,
    "a version needs a complete wheel of the same content (400 without one)",
)
def begin_version(hub: Hub, asked: Asked) -> Reply:
    """Announce a version's source archive; answers where to upload it."""
    environment = _own(hub, asked)
    content, version = asked.text("content_hash"), asked.text("semantic_version")
    _refuse_published(hub, environment, content, version)
    wheels = [wheel for wheel in hub.store.all("wheel", environment["id"]) if wheel["content_hash"] == content]
    if not any(wheel["complete"] for wheel in wheels):
        raise Refused(400, "No wheel has been uploaded for this content hash")
    version_id = _derived("ver", environment["id"], content)
    about = {key: asked.body.get(key) for key in ("filename", "metadata", "runtime_hint")}
    wanted = {"id": version_id, "content_hash": content, "sha256": asked.text("sha256"), "semantic_version": version}
    begun = {**wanted, **about, "complete": False, "created_at": now()}
    hub.store.put("version", version_id, begun, parent=environment["id"])
    return Reply({"data": {"version_id": version_id, "upload_url": _upload_address(asked, version_id)}})


@endpoint(
    "POST", "/environmentshub/{id}/versions/{version}/finalize", MEASURED, "what was uploaded is checked by its hash"
)
def end_version(hub: Hub, asked: Asked) -> Reply:
    """Publish a version; from now on it is the latest."""
    environment = _own(hub, asked)
    version = _child(hub, "version", asked.parts["version"])
    if version["complete"]:
        return Reply({"data": {"success": True, "message": "already finalized"}})
    _refuse_published(hub, environment, version["content_hash"], version["semantic_version"])
    _check_upload(hub, version)
    # written anew, so that the order is that of publishing
    hub.store.delete("version", version["id"])
    hub.store.put("version", version["id"], {**version, "complete": True, "created_at": now()}, environment["id"])
    environment["updated_at"] = now()
    hub.store.put("environment", f"{environment['owner']}/{environment['name']}", environment)
    return Reply({"data": {"success": True, "message": None}})


@endpoint("PUT", "/uploads/{id}", MEASURED, "a signature stands in the address, and a wrong one is refused with 403")
def upload(hub: Hub, asked: Asked) -> Reply:
    """Take the bytes of a wheel or a source archive; no key is sent here."""
    if asked.query.get("X-Amz-Signature") != _signature(asked.parts["id"]):
        raise Refused(403, "SignatureDoesNotMatch")
    hub.store.write_file(asked.parts["id"], asked.content)
    return Reply(content=b"", kind="text/plain")


@endpoint("DELETE", "/environmentshub/{owner}/{name}/@{hash}", READ, "the next older version becomes the latest")
def delete_version(hub: Hub, asked: Asked) -> Reply:
    """Delete one version by its content hash."""
    environment = _named(hub, asked)
    for version in published(hub, environment):
        if version["content_hash"] == asked.parts["hash"]:
            hub.store.delete("version", version["id"])
            return Reply({"data": {"success": True}})
    raise Refused(404, "Version not found")


@endpoint("DELETE", "/environmentshub/{owner}/{name}", READ)
def delete_environment(hub: Hub, asked: Asked) -> Reply:
    """Delete an environment with all its versions."""
    environment = _named(hub, asked)
    for kind in ("wheel", "version", "environment-secret", "environment-variable"):
        for document in hub.store.all(kind, environment["id"]):
            hub.store.delete(kind, document["id"])
    hub.store.delete("environment", f"{environment['owner']}/{environment['name']}")
    hub.store.delete("address", environment["id"])
    return Reply({"data": {"success": True}})


@endpoint("PATCH", "/user/slug", ASSUMED, "users of the emulator have their name")
def set_slug(_hub: Hub, asked: Asked) -> Reply:
    """Choose a user name; always taken here."""
    writer(asked)
    raise Refused(409, "This username is already taken")


def _own(hub: Hub, asked: Asked) -> Document:
    environment = environment_of_id(hub, writer(asked), asked.parts["id"])
    if environment["owner"] not in writer(asked).owners:
        raise Refused(403, "You do not have permission to change this environment")
    return environment


def _named(hub: Hub, asked: Asked) -> Document:
    account = writer(asked)
    environment = hub.visible(account, asked.parts["owner"], asked.parts["name"])
    if environment["owner"] not in account.owners:
        raise Refused(403, "You do not have permission to change this environment")
    return environment


def _refuse_published(hub: Hub, environment: Document, content: str, version: str) -> None:
    for known in published(hub, environment):
        if known["content_hash"] == content:
            raise _conflict(hub, content)
        if version_number(known) == version:
            raise Refused(409, f"Version {version} already exists with different content")


def _conflict(hub: Hub, content: str) -> Refused:
    detail = f"An environment version with content hash {content} already exists with the same content"
    return Refused(hub.behaviour.same_content, detail)


def _child(hub: Hub, kind: str, id: str) -> Document:
    document = hub.store.get(kind, id)
    if document is None:
        raise Refused(404, f"{kind.title()} not found")
    return document


def _check_upload(hub: Hub, document: Document) -> None:
    content = hub.store.read_file(document["id"])
    if content is None:
        raise Refused(400, "Nothing has been uploaded")
    if hashlib.sha256(content).hexdigest() != document["sha256"]:
        raise Refused(400, "The uploaded file does not match its sha256")


def _upload_address(asked: Asked, id: str) -> str:
    return f"{asked.address}/uploads/{id}?X-Amz-Credential=emulated&X-Amz-Signature={_signature(id)}"


def _signature(id: str) -> str:
    return hashlib.sha256(f"signature {id}".encode()).hexdigest()


def _derived(kind: str, *parts: str) -> str:
    return f"{kind}_{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:20]}"
