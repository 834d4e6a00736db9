"""Puts an environment on the Hub on loopback, request by request as a push does."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import urllib.request
from typing import Any

from envwright_emulator.server import EmulatedHub

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def publish(
    hub: EmulatedHub,
    name: str,
    version: str,
    content_hash: str,
    owner: str = "acme",
    *,
    content: bytes = b"wheel",
    visibility: str = "PRIVATE",
) -> None:
    """The environment is there at this version, with this content."""

    def post(path: str, **body: Any) -> Any:
        return json.loads(_send(hub, f"{hub.url}/api/v1{path}", json.dumps(body).encode()))["data"]

    made = post("/environmentshub/resolve", name=name, visibility=visibility, owner_slug=owner)
    base = f"/environmentshub/{made['id']}"
    for kind, ending, data in (("wheel", "-py3-none-any.whl", content), ("version", ".tar.gz", _archive())):
        about = {"content_hash": content_hash, "semantic_version": version, "metadata": {"description": name}}
        about |= {"filename": f"{name}-{version}{ending}", "sha256": hashlib.sha256(data).hexdigest()}
        part = post(f"{base}/{kind}s", **about, size=len(data))
        _send(hub, part["upload_url"], data, "PUT", "application/octet-stream")
        _send(hub, f"{hub.url}/api/v1{base}/{kind}s/{part[f'{kind}_id']}/finalize", b"{}")


def _send(hub: EmulatedHub, address: str, body: bytes, method: str = "POST", kind: str = "application/json") -> bytes:
    headers = {"Content-Type": kind}
    if method == "POST":
        headers["Authorization"] = f"Bearer {hub.key}"
    with _DIRECT.open(urllib.request.Request(address, body, headers, method=method), timeout=10) as answer:
        return bytes(answer.read())


def _archive() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("README.md")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"#"))
    return stream.getvalue()
