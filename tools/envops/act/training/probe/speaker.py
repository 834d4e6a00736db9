"""The policy behind an OpenAI-compatible endpoint on loopback: environments ask it as they ask any model.

Requests that wait at the same time are sampled in one batch, as an inference server does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from envops.act.training.probe.conversations import Message, Spoken, Turn
from envops.act.training.probe.vocabulary import END, Vocabulary

GATHERING_SECONDS = 0.01
"""How long the first request of a batch waits for others."""
MOST_AT_ONCE = 256

Sampler = Callable[[Sequence[Sequence[int]]], Sequence[tuple[Sequence[int], Sequence[float]]]]
"""Conversations as tokens → tokens and log probabilities of a reply to each."""


@dataclass(frozen=True)
class _Waiting:
    messages: Sequence[Message]
    heard: tuple[int, ...]
    answer: asyncio.Future[Turn]


class Speaker:
    """Serves from a thread of its own between `__enter__` and `__exit__`."""

    def __init__(self, vocabulary: Vocabulary, sample: Sampler) -> None:
        self._vocabulary = vocabulary
        self._sample = sample
        self.spoken = Spoken()
        self._loop = asyncio.new_event_loop()
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._thread = threading.Thread(target=self._serve, name="envops-policy", daemon=True)
        self._bound: Future[int] = Future()

    def __enter__(self) -> Self:
        self._thread.start()
        self.base_url = f"http://127.0.0.1:{self._bound.result(timeout=30)}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

        async def start() -> int:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            return int(runner.addresses[0][1])

        self._bound.set_result(self._loop.run_until_complete(start()))
        answering = self._loop.create_task(self._answer())
        self._loop.run_forever()
        answering.cancel()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _answer(self) -> None:
        while True:
            batch = [await self._queue.get()]
            await asyncio.sleep(GATHERING_SECONDS)
            while not self._queue.empty() and len(batch) < MOST_AT_ONCE:
                batch.append(self._queue.get_nowait())
            try:
                replies = await asyncio.to_thread(self._sample, [one.heard for one in batch])
            except Exception as error:
                for one in batch:
                    one.answer.set_exception(error)
                continue
            for one, (tokens, logprobs) in zip(batch, replies, strict=True):
                one.answer.set_result(Turn(one.heard, tuple(tokens), tuple(logprobs)))

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        messages: list[dict[str, Any]] = body["messages"]
        heard = tuple(self._vocabulary.heard(messages))
        waiting = _Waiting(messages, heard, self._loop.create_future())
        self._queue.put_nowait(waiting)
        turn = await waiting.answer
        text = self._vocabulary.spoken(turn.said)
        self.spoken.add(messages, text, turn)
        return web.json_response(_completion(str(body.get("model")), text, turn))


def _completion(model: str, text: str, turn: Turn) -> dict[str, Any]:
    fed, said = len(turn.heard), len(turn.said)
    reason = "stop" if END in turn.said else "length"
    return {
        "id": "chatcmpl-probe",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}],
        "usage": {"prompt_tokens": fed, "completion_tokens": said, "total_tokens": fed + said},
    }
