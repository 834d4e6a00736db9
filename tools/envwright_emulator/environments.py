"""Reading environments: status, versions, details, lists, source, and the files to install."""

from __future__ import annotations

import html
from typing import Any

from packaging.utils import canonicalize_name

from envwright_emulator.hub import ASSUMED, MEASURED, Account, HttpRefusal, Hub, HubRequest, HubResponse, route
from envwright_emulator.store import StoredDocument


def published(hub: Hub, environment: StoredDocument) -> list[StoredDocument]:
    """The complete versions, newest first."""
    return [version for version in reversed(hub.store.all("version", environment["id"])) if version["complete"]]


def version_number(version: StoredDocument) -> str:
    return str(version["semantic_version"])


def environment_of_id(hub: Hub, account: Account | None, id: str) -> StoredDocument:
    """The environment with this id, if the account may see it. Raises `HttpRefusal` (404)."""
    address = hub.store.get("address", id)
    if address is None:
        raise HttpRefusal(404, "Environment not found")
    return hub.visible(account, address["owner"], address["name"])


@route("GET", "/environmentshub/{owner}/{name}/status", MEASURED)
def status(hub: Hub, request: HubRequest) -> HubResponse:
    """An environment's visibility and latest version; 404 also if the key may not see it."""
    environment = hub.visible(request.account, request.parts["owner"], request.parts["name"])
    latest = next(iter(published(hub, environment)), None)
    return HubResponse(
        {
            "data": {
                "name": environment["name"],
                "description": _description(latest),
                "visibility": environment["visibility"],
                "latest_version": latest
                and {key: latest[key] for key in ("semantic_version", "content_hash", "created_at")},
            }
        }
    )


@route("GET", "/environmentshub/{owner}/{name}/versions", MEASURED)
def versions(hub: Hub, request: HubRequest) -> HubResponse:
    """Every complete version, newest first; `sha256` is the content hash, and `size` the number of files."""
    environment = hub.visible(request.account, request.parts["owner"], request.parts["name"])
    rows = [
        {"version": version_number(each), "created_at": each["created_at"], "sha256": each["content_hash"], "size": 2}
        for each in published(hub, environment)
    ]
    return HubResponse({"data": {"versions": rows}})


@route(
    "GET",
    "/environmentshub/{owner}/{name}/@{version}",
    MEASURED,
    "private_wheels: whether a private environment's wheel is offered (--assume private-wheels=hidden)",
    "without a complete version the response is 404",
)
def details(hub: Hub, request: HubRequest) -> HubResponse:
    """One version (or latest) with the addresses of its source, wheel and index."""
    environment, version = _version(hub, request)
    owner, name = environment["owner"], environment["name"]
    base = _address_of_files(request, environment, version)
    found: dict[str, Any] = {
        "id": environment["id"],
        "name": name,
        "owner": {"name": owner},
        "visibility": environment["visibility"],
        "semantic_version": version_number(version),
        "content_hash": version["content_hash"],
        "metadata": version["metadata"] or {},
        "package_url": f"{base}/{version['filename']}",
        "url_dependencies": [],
    }
    if _offers_wheels(hub, environment):
        found["wheel_url"] = f"{base}/{_wheel(hub, environment, version)['filename']}"
        found["simple_index_url"] = f"{request.address}/simple/{owner}"
    return HubResponse({"data": found})


@route(
    "GET",
    "/environmentshub/",
    MEASURED,
    "paging: pages may be ignored (--assume paging=ignored), or be shorter than requested (--assume page-limit=20)",
    "without include_teams and mine_only, public environments and the key's own are listed",
)
def listed(hub: Hub, request: HubRequest) -> HubResponse:
    """Environments that the key can see, filtered, sorted, page by page."""
    owners = request.account.owners if request.account else ()
    if request.is_set("mine_only"):
        owners = request.signed_in().owners
    rows = []
    for environment in hub.store.all("environment"):
        is_chosen = environment["owner"] in owners if request.is_set("mine_only") else True
        if is_chosen and hub.sees(request.account, environment):
            row = _row(hub, environment)
            if _wanted(row, request):
                rows.append(row)
    key = request.query.get("sort_by", "created_at")
    rows.sort(key=lambda row: str(row.get(key) or ""), reverse=request.query.get("sort_order", "desc") == "desc")
    return HubResponse({"data": hub.page(request, rows, "offset", 20), "total_count": len(rows)})


@route("GET", "/files/{owner}/{name}/{hash}/{file}", ASSUMED, "a private environment's files need the key")
def file(hub: Hub, request: HubRequest) -> HubResponse:
    """A wheel or a source archive, by the content hash of its version."""
    environment = hub.visible(request.account, request.parts["owner"], request.parts["name"])
    for version in published(hub, environment):
        if version["content_hash"] == request.parts["hash"]:
            wheels = [_wheel(hub, environment, version)] if _offers_wheels(hub, environment) else []
            for document in (version, *wheels):
                if document["filename"] == request.parts["file"]:
                    content = hub.store.read_file(document["id"]) or b""
                    return HubResponse(content=content, kind="application/octet-stream")
    raise HttpRefusal(404, "Not Found")


@route("GET", "/simple/{owner}/{package}/", ASSUMED, "the index offers public environments without a key")
def simple_index(hub: Hub, request: HubRequest) -> HubResponse:
    """An owner's package index for installers: one package's wheels with their hashes."""
    rows = []
    for environment in hub.store.all("environment"):
        same = canonicalize_name(environment["name"]) == canonicalize_name(request.parts["package"])
        offered = hub.sees(request.account, environment) and _offers_wheels(hub, environment)
        if same and environment["owner"] == request.parts["owner"] and offered:
            for version in published(hub, environment):
                wheel = _wheel(hub, environment, version)
                base = _address_of_files(request, environment, version)
                address = html.escape(f"{base}/{wheel['filename']}#sha256={wheel['sha256']}")
                rows.append(f'<a href="{address}">{html.escape(wheel["filename"])}</a>')
    if not rows:
        raise HttpRefusal(404, "Not Found")
    page = f"<!DOCTYPE html><html><body>{'<br>'.join(rows)}</body></html>"
    return HubResponse(content=page.encode(), kind="text/html")


def _version(hub: Hub, request: HubRequest) -> tuple[StoredDocument, StoredDocument]:
    environment = hub.visible(request.account, request.parts["owner"], request.parts["name"])
    wanted = request.parts["version"]
    for version in published(hub, environment):
        if wanted in ("latest", version_number(version), version["content_hash"]):
            return environment, version
    raise HttpRefusal(404, "Version not found")


def _wheel(hub: Hub, environment: StoredDocument, version: StoredDocument) -> StoredDocument:
    """The wheel of a version: the newest complete one of the same content."""
    wheels = [wheel for wheel in hub.store.all("wheel", environment["id"]) if wheel["complete"]]
    return next(wheel for wheel in reversed(wheels) if wheel["content_hash"] == version["content_hash"])


def _offers_wheels(hub: Hub, environment: StoredDocument) -> bool:
    """Whether those who see an environment get its wheels and its index."""
    return environment["visibility"] == "PUBLIC" or hub.behaviour.private_wheels == "served"


def _address_of_files(request: HubRequest, environment: StoredDocument, version: StoredDocument) -> str:
    return f"{request.address}/files/{environment['owner']}/{environment['name']}/{version['content_hash']}"


def _row(hub: Hub, environment: StoredDocument) -> dict[str, Any]:
    latest = next(iter(published(hub, environment)), None)
    return {
        "id": environment["id"],
        "name": environment["name"],
        "owner": {"name": environment["owner"]},
        "description": _description(latest),
        "visibility": environment["visibility"],
        "latest_version": version_number(latest) if latest else None,
        "tags": ((latest or {}).get("metadata") or {}).get("tags") or [],
        "stars": 0,
        "created_at": environment["created_at"],
        "updated_at": environment["updated_at"],
    }


def _wanted(row: dict[str, Any], request: HubRequest) -> bool:
    query = request.query
    return (
        query.get("owner") in (None, row["owner"]["name"])
        and query.get("visibility") in (None, row["visibility"])
        and query.get("search", "").lower() in f"{row['name']} {row['description']}".lower()
    )


def _description(version: StoredDocument | None) -> str:
    return str(((version or {}).get("metadata") or {}).get("description") or "")
