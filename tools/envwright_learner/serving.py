"""The policy behind an OpenAI-compatible endpoint on loopback: environments call it like any model.

Requests that wait at the same time are sampled in one batch, as an inference server does.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from envwright.system.loopback import served
from envwright_worker.endpoint.dialects import InvalidRequest
from envwright_worker.messages import Message

from envwright_learner.conversations import SampledTurns, Turn
from envwright_learner.rendering import Renderer, ToolSchemas, UnfitTemplate

GATHERING_SECONDS = 0.01
"""Seconds that the first request of a batch waits for others."""
MOST_AT_ONCE = 256


@dataclass(frozen=True)
class SamplingRequest:
    """A conversation as tokens, and what was requested of the reply to it."""

    heard: tuple[int, ...]
    temperature: float = 1.0
    """Ignored for a policy in training, which is sampled as it is trained."""
    most: int | None = None
    """The most tokens of the reply."""


Sampler = Callable[[Sequence[SamplingRequest]], Sequence[tuple[Sequence[int], Sequence[float]]]]
"""Requests → tokens and log probabilities of a reply to each."""


@dataclass(frozen=True)
class _Waiting:
    request: SamplingRequest
    answer: asyncio.Future[Turn]


class PolicyServer:
    """Serves from a thread of its own between `__enter__` and `__exit__`.

    `longest` is the most tokens of a conversation with its reply; a longer one is refused, as by inference servers.
    """

    def __init__(
        self, renderer: Renderer, sample: Sampler, longest: int | None = None, *, name: str = "policy", port: int = 0
    ) -> None:
        self._renderer = renderer
        self._sample = sample
        self._longest = longest
        self._name = name
        self._port = port
        self.spoken = SampledTurns()
        self.refused: Exception | None = None
        """The last error of sampling or rendering; rollouts only state that the model failed."""
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._serving = ExitStack()

    def __enter__(self) -> Self:
        server = served("envwright-policy", self._opened, port=self._port, shutdown_timeout=0.1)
        self.base_url = f"http://127.0.0.1:{self._serving.enter_context(server).port}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.close()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[web.Application]:
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_get("/v1/models", self._models)
        application.router.add_post("/v1/chat/completions", self._chat)
        answering = asyncio.create_task(self._answer())
        try:
            yield application
        finally:
            answering.cancel()

    async def _answer(self) -> None:
        while True:
            batch = [await self._queue.get()]
            await asyncio.sleep(GATHERING_SECONDS)
            while not self._queue.empty() and len(batch) < MOST_AT_ONCE:
                batch.append(self._queue.get_nowait())
            batch = [one for one in batch if not one.answer.done()]  # the client disconnected
            try:
                replies = await asyncio.to_thread(self._sample, [one.request for one in batch]) if batch else []
            except Exception as error:
                self.refused = error
                for one in batch:
                    if not one.answer.done():
                        one.answer.set_exception(error)
                continue
            for one, (tokens, logprobs) in zip(batch, replies, strict=True):
                if not one.answer.done():
                    one.answer.set_result(Turn(one.request.heard, tuple(tokens), tuple(logprobs)))

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self._name, "object": "model"}]})

    async def _chat(self, request: web.Request) -> web.Response:
        try:
            body = await request.json()
            messages, tools, most, temperature = _asked(body)
            turn = await self._turn(messages, tools, most, temperature)
        except InvalidRequest as error:
            return _refusal(400, str(error))
        except UnfitTemplate as error:
            self.refused = error
            return _refusal(400, str(error))
        reply = self._renderer.reply(turn.reply)
        self.spoken.add(messages, reply, turn)
        ended = self._renderer.ended(turn.reply)
        return web.json_response(_completion(str(body.get("model")), reply, turn, ended=ended))

    async def _turn(
        self, messages: Sequence[Message], tools: ToolSchemas, most: int | None, temperature: float
    ) -> Turn:
        heard = self._heard(messages, tools)
        left = None if self._longest is None else self._longest - len(heard)
        if left is not None and left < 1:
            raise InvalidRequest(
                f"this model's maximum context length is {self._longest} tokens, {len(heard)} were given"
            )
        limit = min((bound for bound in (most, left) if bound is not None), default=None)
        waiting = _Waiting(SamplingRequest(heard, temperature, limit), asyncio.get_running_loop().create_future())
        self._queue.put_nowait(waiting)
        turn = await waiting.answer
        return Turn(turn.heard, turn.reply[:limit], turn.logprobs[:limit])

    def _heard(self, messages: Sequence[Message], tools: ToolSchemas) -> tuple[int, ...]:
        """A conversation as tokens; tokens that were sampled here are kept."""
        places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        last = self.spoken.turn(messages[: places[-1] + 1]) if places else None
        if last is None:
            return tuple(self._renderer.heard(messages, tools))
        return (*last.heard, *last.reply, *self._renderer.heard_after(messages, places[-1], tools, last.reply))


def _asked(body: Any) -> tuple[list[Message], ToolSchemas, int | None, float]:
    """Messages, tools, the most tokens and the temperature of a request. Raises `InvalidRequest`."""
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("messages must be a list that is not empty")
    if body.get("stream"):
        raise InvalidRequest("this endpoint does not stream")
    if body.get("n") not in (None, 1):
        raise InvalidRequest("this endpoint returns one reply per request")
    most = body.get("max_completion_tokens") or body.get("max_tokens")
    if most is not None and (not isinstance(most, int) or most < 1):
        raise InvalidRequest("max_tokens must be a number of at least 1")
    temperature = 1.0 if body.get("temperature") is None else body["temperature"]
    if not isinstance(temperature, int | float) or not 0 <= temperature < math.inf:
        raise InvalidRequest("temperature must be a number of at least 0")
    return messages, body.get("tools") or (), most, float(temperature)


def _completion(model: str, reply: Message, turn: Turn, *, ended: bool) -> dict[str, Any]:
    fed, sampled = len(turn.heard), len(turn.reply)
    reason = "tool_calls" if reply.get("tool_calls") else "stop" if ended else "length"
    return {
        "id": "chatcmpl-policy",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": reply, "finish_reason": reason}],
        "usage": {"prompt_tokens": fed, "completion_tokens": sampled, "total_tokens": fed + sampled},
    }


def _refusal(status: int, message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "code": "invalid_request"}
    return web.json_response({"error": error}, status=status)
