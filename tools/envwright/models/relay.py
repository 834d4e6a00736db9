"""The relay between a worker and a real model: an OpenAI-compatible server on loopback.

An environment's code must never see a key, and its worker can only reach this machine. So the worker calls the relay,
and the host adds the key, limits concurrent calls, counts their cost and retries. The address contains a secret, so
that other programs on the machine cannot use the key.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Self

from aiohttp import web

from envwright.declarations.endpoints import Endpoint
from envwright.facts.spending import Spending
from envwright.models.provider import EndpointRefuses, Provider, ProviderAnswer, error_answer
from envwright.models.spending import SpendingLimit
from envwright.system.loopback import served
from envwright.text.scrubbing import Scrubber

MAXIMUM_BODY = 64 * 2**20


class Relay:
    """Serves in a thread of its own, as a context manager."""

    def __init__(
        self, endpoint: Endpoint, key: str, ceiling: float | None, *, seed: int | None = None, any_model: bool = False
    ) -> None:
        self.endpoint = endpoint
        self._any_model = any_model
        """Whether it serves a judge: an environment names a model in its own code, and the declaration decides which
        model replies."""
        self.seed = seed
        """The base of seeds: with it, the n-th call of a conversation has the same seed in every uninterrupted run."""
        self._limit = SpendingLimit(endpoint, ceiling)
        self._provider = Provider(endpoint, key, self._limit, seed=seed)
        self._path = secrets.token_urlsafe(24)
        self._scrubber = Scrubber(key, self._path, shapes=False)
        self._serving = ExitStack()

    def __enter__(self) -> Self:
        server = served("envwright-relay", self._opened, handler_cancellation=True, shutdown_timeout=1.0)
        self._served = self._serving.enter_context(server)
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.close()

    @property
    def base_url(self) -> str:
        """The address for workers; as secret as a password."""
        return f"http://127.0.0.1:{self._served.port}/{self._path}/v1"

    @property
    def spending(self) -> Spending:
        return self._limit.spending

    @property
    def ceiling(self) -> float | None:
        return self._limit.ceiling

    def leave(self, dollars: float) -> None:
        """Leave a part of the limit to another relay of the same run."""
        if self._limit.ceiling is not None:
            self._limit.ceiling -= dollars

    @property
    def ceiling_reached(self) -> bool:
        """Whether a call was refused because of the limit, or the cost exceeded it."""
        over = self.ceiling is not None and self.spending.cost > self.ceiling
        return over or self._provider.ceiling_reached

    @property
    def refusal(self) -> EndpointRefuses | None:
        """Why the endpoint answers no further calls; `None` while it does."""
        return self._provider.refusal

    def goes_on_after(self, rollouts: int) -> None:
        """Set the number of rollouts that earlier runs kept, so that no seed is used twice."""
        self._provider.earlier_rollouts = rollouts

    def check(self) -> None:
        """Make a cheap test call. Raises `EndpointRefuses`."""
        asyncio.run_coroutine_threadsafe(self._provider.check(), self._served.loop).result()

    def scrub(self, value: Any) -> Any:
        """The data without the key and the relay's address."""
        return self._scrubber.value(value)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[web.Application]:
        application = web.Application(client_max_size=MAXIMUM_BODY)
        application.router.add_get(f"/{self._path}/v1/models", self._models)
        for path in ("chat/completions", "completions"):
            application.router.add_post(f"/{self._path}/v1/{path}", self._completions)
        application.router.add_post(f"/{self._path}/v1/{{other:.*}}", self._other)
        async with self._provider:
            yield application

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.endpoint.model, "object": "model"}]})

    async def _other(self, request: web.Request) -> web.StreamResponse:
        spoken = "chat completions and completions, as the endpoint does"
        message = f"this relay supports {spoken}, but not {request.match_info['other'][:100]}: use another harness"
        return _response(error_answer(404, "dialect_not_spoken", message))

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return _response(error_answer(400, "not_json", "the body is not a JSON object"))
        if body.get("model") != self.endpoint.model and not self._any_model:
            message = f"this relay serves only {self.endpoint.model}"
            return _response(error_answer(404, "model_not_found", message))
        answer = await self._provider.call(request.path.split("/v1/", 1)[1], body)
        if body.get("stream") and answer.status == 200:
            return await _streamed(request, answer)
        return _response(answer)


def _response(answer: ProviderAnswer) -> web.Response:
    return web.json_response(answer.body, status=answer.status)


async def _streamed(request: web.Request, answer: ProviderAnswer) -> web.StreamResponse:
    """A whole answer in the form of a stream, for clients that request one."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    choices = []
    for choice in answer.body["choices"]:
        message = dict(choice.get("message") or {})
        calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls") or [])]
        delta = message | ({"tool_calls": calls} if calls else {})
        choices.append({"index": choice.get("index", 0), "delta": delta, "finish_reason": choice.get("finish_reason")})
    chunk = answer.body | {"object": "chat.completion.chunk", "choices": choices}
    await response.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
    await response.write_eof()
    return response
