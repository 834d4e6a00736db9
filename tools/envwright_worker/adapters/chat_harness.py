"""A chat harness for verifiers v1 that runs inside the worker.

The library's own `null` harness installs its program with uv at every start, which needs a network. This one uses the
same interception endpoint and MCP servers, so its traces are ordinary ones. It is found by verifiers under the harness
id `envwright-chat`.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import aiohttp
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire

from envwright_worker.adapters.adapter import MOST_CALLS, ToolUse
from envwright_worker.failures import MESSAGE_LIMIT

HARNESS_ID = "envwright-chat"
MADE_CALLS: deque[ToolUse] = deque(maxlen=MOST_CALLS)
"""The calls of tools in rollouts, until the adapter takes them."""
MCP_HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2025-06-18",
}


@dataclass(frozen=True)
class HttpAnswer:
    """A complete HTTP response."""

    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def error_text(self) -> str:
        return self.body[:500].decode("utf-8", "replace")


class SharedClient:
    """One client for all conversations, without httpx's search of the connection pool at every request."""

    _open: ClassVar[tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession] | None] = None

    @classmethod
    async def post(cls, url: str, message: Mapping[str, Any], headers: Mapping[str, str]) -> HttpAnswer:
        async with cls._session().post(url, json=message, headers=headers) as response:
            return HttpAnswer(response.status, await response.read())

    @classmethod
    def _session(cls) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()  # a fork has a loop of its own
        if cls._open is None or cls._open[0] is not loop or cls._open[1].closed:
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
            cls._open = (loop, session)
        return cls._open[1]


class ChatHarnessConfig(vf.HarnessConfig):
    """The limits of one conversation."""

    max_tool_rounds: int = 64


class HarnessTools:
    """The tools of all MCP servers of a rollout, under the names that the model sees."""

    def __init__(self) -> None:
        self._homes: dict[str, tuple[str, str]] = {}
        self.offered: list[dict[str, Any]] = []

    async def discover(self, servers: Mapping[str, str]) -> None:
        for server, url in servers.items():
            for tool in (await self._request(url, "tools/list", {}))["tools"]:
                name = f"{server}_{tool['name']}" if server else tool["name"]
                self._homes[name] = (url, tool["name"])
                described = {"description": tool.get("description") or "", "parameters": tool["inputSchema"]}
                self.offered.append({"type": "function", "function": {"name": name, **described}})

    async def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Make one tool call; a failure is returned to the model as text."""
        arguments, failed = {}, True
        try:
            url, name = self._homes[call["function"]["name"]]
            given = json.loads(call["function"]["arguments"] or "{}")
            if not isinstance(given, dict):
                raise TypeError(f"the arguments are {type(given).__name__}, not an object")
            arguments = given
            result = await self._request(url, "tools/call", {"name": name, "arguments": arguments})
            content = "\n".join(part.get("text", "") for part in result["content"])
            failed = bool(result.get("isError"))
        except Exception as error:
            content = f"error: {type(error).__name__}: {error}"
        failure = {"kind": "raised", "type": "ToolError", "message": content[:MESSAGE_LIMIT]} if failed else None
        MADE_CALLS.append(ToolUse(call["function"]["name"], arguments, content, failure))
        return {"role": "tool", "tool_call_id": call["id"], "content": content}

    async def _request(self, url: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        heard = await SharedClient.post(url, message, MCP_HEADERS)
        if heard.status >= 400:
            raise RuntimeError(f"{method}: HTTP {heard.status}: {heard.error_text()}")
        answer: dict[str, Any] = heard.json()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result


class ChatHarness(vf.Harness[ChatHarnessConfig]):
    """Prompt in, replies and tool calls until the model stops calling tools."""

    APPENDS_SYSTEM_PROMPT: ClassVar[bool] = True
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    EXECUTES_CODE: ClassVar[bool] = False
    NEEDS_CONTAINER: ClassVar[bool] = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,  # noqa: ARG002
        runtime: Any,  # noqa: ARG002
        endpoint: str,
        secret: str,
        mcp_urls: Mapping[str, str],
        data: Any,
        **_: Any,
    ) -> Any:
        messages = self._opening(data)
        tools = HarnessTools()
        await tools.discover(mcp_urls)
        for _round in range(self.config.max_tool_rounds):
            body = {"model": ctx.model, "messages": messages} | ({"tools": tools.offered} if tools.offered else {})
            authorization = {"Authorization": f"Bearer {secret}"}
            heard = await SharedClient.post(f"{endpoint.rstrip('/')}/chat/completions", body, authorization)
            if heard.status >= 400:
                return vf.ProgramResult(exit_code=1, stdout="", stderr=f"HTTP {heard.status}: {heard.error_text()}")
            message = heard.json()["choices"][0]["message"]
            messages.append({key: value for key, value in message.items() if value is not None})
            calls = message.get("tool_calls") or []
            if not calls:
                break
            messages += [await tools.answer(call) for call in calls]
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    def _opening(self, data: Any) -> list[dict[str, Any]]:
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            return [*messages, {"role": "user", "content": prompt}]
        return [*messages, *(message_to_wire(message) for message in prompt or [])]


__all__ = ["ChatHarness"]
