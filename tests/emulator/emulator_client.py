"""Calls a Hub as the prime CLI does, request by request."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from envwright_emulator.server import EmulatedHub

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Said:
    status: int
    content: bytes
    headers: Any

    @property
    def data(self) -> Any:
        return json.loads(self.content)["data"]

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True)
class Speaker:
    url: str
    key: str = ""

    def __call__(self, method: str, path: str, body: Any = None) -> Said:
        return self.send(method, f"{self.url}/api/v1{path}", json.dumps(body).encode() if body is not None else None)

    def send(self, method: str, address: str, content: bytes | None, kind: str = "application/json") -> Said:
        headers = {"Content-Type": kind}
        if self.key and "/uploads/" not in address:
            headers["Authorization"] = f"Bearer {self.key}"
        try:
            with DIRECT.open(urllib.request.Request(address, content, headers, method=method), timeout=10) as answer:
                return Said(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            return Said(error.code, error.read(), error.headers)

    def push(
        self,
        name: str = "spelling",
        version: str = "0.1.0",
        content: str = "one",
        *,
        owner: str = "acme",
        visibility: str | None = "PRIVATE",
        until: str = "",
        source: bytes | None = None,
        wheel: bytes | None = None,
        content_hash: str = "",
    ) -> Said:
        """All steps of a push, or those before the `wheel` or the `source`; the last answer, or the first error."""
        wheel = f"wheel {name} {content}".encode() if wheel is None else wheel
        source = _archive(f"# {name} {content}") if source is None else source
        content_hash = content_hash or hashlib.sha256(content.encode()).hexdigest()
        marks = {"content_hash": content_hash, "semantic_version": version}
        about = {**marks, "metadata": {"description": f"about {name}", "tags": ["train"]}}
        response = self(
            "POST", "/environmentshub/resolve", _without_none(name=name, visibility=visibility, owner_slug=owner)
        )
        base = f"/environmentshub/{response.data['id']}" if response.status == 200 else ""
        files = (
            ("wheel", "wheels", f"{name}-{version}-py3-none-any.whl", wheel),
            ("source", "versions", f"{name}-{version}.tar.gz", source),
        )
        for kind, plural, filename, bytes_ in files:
            if response.status != 200 or until == kind:
                return response
            sent = {**about, "filename": filename, "sha256": hashlib.sha256(bytes_).hexdigest(), "size": len(bytes_)}
            response = self("POST", f"{base}/{plural}", sent)
            if response.status != 200 or response.data["upload_url"] is None:
                continue
            made = response.data["wheel_id" if kind == "wheel" else "version_id"]
            uploaded = self.send("PUT", response.data["upload_url"], bytes_, "application/octet-stream")
            response = self("POST", f"{base}/{plural}/{made}/finalize") if uploaded.status == 200 else uploaded
        return response

    def latest(self, address: str = "acme/spelling") -> str | None:
        """The version that the status has; `None` without one."""
        latest = self("GET", f"/environmentshub/{address}/status").data["latest_version"]
        return latest and latest["semantic_version"]


def publish(hub: EmulatedHub, name: str, version: str, content_hash: str, owner: str = "acme", **more: Any) -> None:
    """Push an environment with this hash of its content; `more` as for `push`."""
    done = Speaker(hub.url, hub.key).push(name, version, content_hash=content_hash, owner=owner, **more)
    assert done.status == 200, done.content


def _archive(text: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name in ("README.md", "spelling/__init__.py"):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return stream.getvalue()


def _without_none(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def submit_run(hub: EmulatedHub, name: str) -> dict[str, Any]:
    """Submit a training run as another process does; the platform's entry."""
    config = {"model": {"name": "m"}, "max_steps": 200}
    Speaker(hub.url, hub.key)("POST", "/training/runs", {"config": config, "name": name})
    found: dict[str, Any] = next(run for run in hub.state()["run"] if run["name"] == name)
    return found
