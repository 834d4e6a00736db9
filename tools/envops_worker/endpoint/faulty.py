"""Answers of the scripted endpoint that are wrong on purpose."""

from __future__ import annotations

import asyncio

from aiohttp import web

from envops_worker.endpoint.faults import CUTS, Fault

HANG_SECONDS = 3600.0


async def commit(fault: Fault, request: web.Request, body: bytes) -> web.StreamResponse:
    """Answer a request the way the fault says; `body` is what a sound answer would be."""
    if fault.kind == "status":
        headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
        kind = "rate_limit_error" if fault.status == 429 else "server_error"
        error = {"message": f"scripted fault: status {fault.status}", "type": kind, "code": "scripted_fault"}
        return web.json_response({"error": error}, status=fault.status, headers=headers)
    if fault.kind == "hang":
        await asyncio.sleep(HANG_SECONDS)
    if fault.kind in CUTS:
        return await _cut(fault.kind, request, body)
    wrong = {
        "malformed-json": body[: max(1, len(body) * 2 // 3)],
        "empty-body": b"",
        "html": b"<html><body>502 Bad Gateway</body></html>",
        "no-choices": b'{"id":"x","object":"chat.completion","created":0,"model":"x","choices":[]}',
    }
    kind = "text/html" if fault.kind == "html" else "application/json"
    return web.Response(body=wrong[fault.kind], content_type=kind)


async def _cut(kind: str, request: web.Request, body: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    if kind != "cut-before-headers":
        await response.prepare(request)
        await response.write(b"" if kind == "cut-after-headers" else body[: len(body) // 2])
        await asyncio.sleep(0.01)  # lets what was written leave, before the connection is gone
    if request.transport is not None:
        request.transport.abort()
    return response
