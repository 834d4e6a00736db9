"""The transport: HTTP on loopback, faults included, and the control endpoints."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from envops.emulator import environments, evaluations, publishing, secrets, training  # noqa: F401 - they fill the table
from envops.emulator.behaviour import UnknownAnswer, behaviour
from envops.emulator.endpoints import Asked, Reply, now
from envops.emulator.faults import GARBAGE, Fault, FaultError, Faults, parse_fault
from envops.emulator.hub import Hub

API = "/api/v1"
CONTROL = "/emulator"
MOST_BYTES = 1 << 30
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def application(hub: Hub, faults: Faults) -> web.Application:
    """The emulator as a web application."""
    app = web.Application(client_max_size=MOST_BYTES)
    transport = _Transport(hub, faults)
    app.router.add_route("*", f"{CONTROL}/{{what:.*}}", transport.control)
    app.router.add_route("*", "/{rest:.*}", transport.serve)
    return app


class _Transport:
    def __init__(self, hub: Hub, faults: Faults) -> None:
        self.hub = hub
        self.faults = faults

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, or let it go wrong, and note it in the journal."""
        path = request.path.removeprefix(API)
        if request.host.rpartition(":")[0] not in LOOPBACK:
            return web.json_response({"detail": "this emulator answers on loopback only"}, status=403)
        fault = self.faults.of(request.method, path)
        if fault and fault.kind == "cut-upload":
            self._note(self.hub.store.begin_request(), request, path, fault, 0, None)
            await request.content.read(int(fault.number("after")) or 1)
            return _reset(request)
        content = await request.read()
        self.hub.catch_up()
        if request.method == "GET":
            self.hub.store.count_read()
        number = self.hub.store.begin_request()
        asked = self._asked(number, request, path, content)
        reply = self._reply(asked, fault)
        self._note(number, request, path, fault, reply.status, asked)
        if fault is None:
            return web.Response(body=reply.encoded(), status=reply.status, content_type=reply.kind)
        return await _gone_wrong(request, fault, reply)

    def _reply(self, asked: Asked, fault: Fault | None) -> Reply:
        if fault is None:
            return self.hub.answer(asked)
        if fault.kind == "later":
            reads = int(fault.number("reads")) if "reads" in fault.settings else None
            reply = self.hub.postpone(asked, fault.number("seconds"), reads)
            if reply.status < 400 and "answer" in fault.settings:
                return Reply({"detail": "emulated fault"}, int(fault.number("answer")))
            return reply
        reply = self.hub.answer(asked, effect=fault.effect)
        if fault.kind == "status":
            return Reply({"detail": "emulated fault"}, int(fault.number("code", 503)))
        return reply

    def _asked(self, number: int, request: web.Request, path: str, content: bytes) -> Asked:
        body, kind = None, request.content_type
        if content and kind == "application/json":
            try:
                body, content = json.loads(content), b""
            except ValueError:
                body = None
        account = self.hub.accounts.of(request.headers.get("Authorization", ""))
        address = f"{request.scheme}://{request.host}"
        query = dict(request.query)
        return Asked(number, request.method, path, account, address, {}, query, body or {}, content)

    def _note(
        self, number: int, request: web.Request, path: str, fault: Fault | None, status: int, asked: Asked | None
    ) -> None:
        query = {key: value for key, value in request.query.items() if not key.lower().startswith("x-amz")}
        entry = {"at": now(), "method": request.method, "path": path, "query": query, "status": status}
        entry["account"] = asked.account.slug if asked and asked.account else None
        if fault:
            entry["fault"] = fault.described()["fault"]
        self.hub.store.end_request(number, entry)

    async def control(self, request: web.Request) -> web.StreamResponse:
        """Not part of the Hub: faults, journal, state, and what becomes of runs."""
        what = request.match_info["what"]
        if request.host.rpartition(":")[0] not in LOOPBACK:
            return web.json_response({"detail": "this emulator answers on loopback only"}, status=403)
        try:
            body = json.loads(await request.read() or b"{}")
            return web.json_response(self._controlled(request.method, what, body))
        except (FaultError, UnknownAnswer, ValueError) as error:
            return web.json_response({"detail": str(error)}, status=400)
        except LookupError:
            return web.json_response({"detail": f"there is no {request.method} {CONTROL}/{what}"}, status=404)

    def _controlled(self, method: str, what: str, body: Mapping[str, Any]) -> Any:
        self.hub.catch_up()
        kind, _, subject = what.partition("/")
        match method, kind:
            case "GET", "journal":
                return self.hub.store.journal()
            case "GET", "faults":
                return [fault.described() for fault in self.faults.all]
            case "PUT", "faults":
                self.faults.all = [parse_fault(text) for text in body["faults"]]
                return {"faults": len(self.faults.all)}
            case "PUT", "assume":
                self.hub.behaviour = behaviour(body["settings"])
                return {"settings": list(body["settings"])}
            case "GET", "state":
                kinds = ("environment", "wheel", "version", "run", "submitted", "evaluation")
                return {kind: self.hub.store.all(kind) for kind in kinds}
            case "PUT", "environments":
                return self._stand_in(*_address(subject), str(body["version"]), str(body.get("content_hash", "0" * 64)))
            case "GET", "environments":
                found = self.hub.environment(*_address(subject))
                versions = environments.published(self.hub, found) if found else []
                return versions[0]["semantic_version"] if versions else None
            case "PATCH", ("runs" | "evaluations"):
                return self._tell("run" if kind == "runs" else "evaluation", subject, body)
            case "POST", "reset":
                self.hub.store.forget()
                self.faults.all = []
                return {}
        raise LookupError

    def _stand_in(self, owner: str, name: str, version: str, content: str) -> Any:
        """Somebody else's public environment: there, and empty."""
        made = {"id": f"env_{owner}_{name}", "owner": owner, "name": name, "visibility": "PUBLIC"}
        file = {"content_hash": content, "sha256": "0" * 64, "semantic_version": version, "complete": True}
        named = {"metadata": {"description": "a stand-in"}, "filename": f"{name}-{version}", "created_at": now()}
        with self.hub.store.transaction():
            self.hub.store.put("environment", f"{owner}/{name}", {**made, "created_at": now(), "updated_at": now()})
            self.hub.store.put("address", made["id"], {"owner": owner, "name": name})
            for kind in ("wheel", "version"):
                id_ = f"{kind}_{owner}_{name}_{version}"
                self.hub.store.put(kind, id_, {"id": id_, **file, **named}, made["id"])
        return made

    def _tell(self, kind: str, subject: str, body: Mapping[str, Any]) -> Any:
        """Say how a run goes: its own keys (status, startedAt …), and logs, metrics and so on beside them."""
        found = self.hub.store.get(kind, subject)
        if found is None:
            raise LookupError
        beside = ("logs", "metrics", "progress", "distributions", "samples", "checkpoints", "env_servers", "usage")
        told = (self.hub.store.get("told", subject) or {}) | {key: body[key] for key in beside if key in body}
        if kind == "evaluation" and "metrics" in body:
            found["metrics"] = body["metrics"]
        if kind == "evaluation" and "samples" in body:
            found["total_samples"] = evaluations.play(self.hub, subject, body["samples"])
        changed = found | {key: value for key, value in body.items() if key not in beside}
        with self.hub.store.transaction():
            self.hub.store.put("told", subject, told)
            self.hub.store.put(
                kind, subject, changed | ({"updatedAt": now()} if kind == "run" else {"updated_at": now()})
            )
        return changed


def _address(text: str) -> tuple[str, str]:
    owner, _, name = text.partition("/")
    return owner, name


async def _gone_wrong(request: web.Request, fault: Fault, reply: Reply) -> web.StreamResponse:
    body, headers = reply.encoded(), {}
    if fault.kind == "delay":
        await asyncio.sleep(fault.number("seconds", 1.0))
    if fault.kind == "garbage":
        return web.Response(body=GARBAGE[fault.settings.get("what", "text")], content_type="text/html")
    if fault.kind == "reset":
        sent = int(fault.number("after"))
        if sent:
            response = web.StreamResponse(status=reply.status, headers={"Content-Type": reply.kind})
            response.content_length = max(len(body), sent + 1)
            await response.prepare(request)
            await response.write(body[:sent])
        return _reset(request)
    if "retry-after" in fault.settings:
        headers["Retry-After"] = fault.settings["retry-after"]
    return web.Response(body=body, status=reply.status, content_type=reply.kind, headers=headers)


def _reset(request: web.Request) -> web.StreamResponse:
    """End the connection with a reset, as a broken network does, not with an orderly close."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
    return web.Response()
