"""The scripted-policy endpoint: an OpenAI-compatible server on loopback.

Every policy is a model name. Which task a conversation is about is read from its opening,
which must be the prompt of one of the tasks that the endpoint was given.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from aiohttp import web

from .adapter import TaskView
from .policies import Message, Policies, UnknownPolicy, text_of

MAXIMUM_BODY = 64 * 2**20
SILENCE = " "
"""Saying nothing, over HTTP: verifiers 0.1.14 and later call a truly empty message an error."""


class UnknownTask(LookupError):
    """No task of this endpoint opens with the prompt of the request."""


class TaskIndex:
    """Finds the task that a conversation is about by how it opens."""

    def __init__(self, tasks: Sequence[TaskView]) -> None:
        self._by_opening: dict[str, list[TaskView]] = defaultdict(list)
        for task in tasks:
            self._by_opening[_first_from_user(task.prompt)].append(task)

    def find(self, messages: Sequence[Message]) -> TaskView:
        """The task whose prompt opens the conversation.

        Raises `UnknownTask` when there is none.
        """
        candidates = self._by_opening.get(_first_from_user(messages), [])
        if len(candidates) == 1:
            return candidates[0]
        said = [text_of(message) for message in messages]
        fitting = [task for task in candidates if all(text_of(message) in said for message in task.prompt)]
        if not fitting:
            opening = _first_from_user(messages)[:120]
            raise UnknownTask(f"no task opens with {opening!r}")
        return max(fitting, key=lambda task: len(task.prompt))


def _first_from_user(messages: Sequence[Message]) -> str:
    return next((text_of(message).strip() for message in messages if message["role"] == "user"), "")


class Endpoint:
    """Serves policies from a thread of its own for as long as the process lives.

    A thread, because the environment's rollouts keep the worker's own loop busy and the
    author's oracle may be slow.
    """

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._index = TaskIndex([])
        self._loop = asyncio.new_event_loop()
        self._bound: Future[int] = Future()
        threading.Thread(target=self._serve, name="envops-endpoint", daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self._bound.result(timeout=30)}/v1"

    def speak_about(self, tasks: Sequence[TaskView]) -> None:
        """Answer conversations about these tasks and no others."""
        self._index = TaskIndex(tasks)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        application = web.Application(client_max_size=MAXIMUM_BODY)
        application.router.add_get("/v1/models", self._models)
        application.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(application, access_log=None)

        async def start() -> int:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            return int(runner.addresses[0][1])

        try:
            self._bound.set_result(self._loop.run_until_complete(start()))
            self._loop.run_forever()
        except OSError as error:
            self._bound.set_exception(error)

    async def _models(self, _request: web.Request) -> web.Response:
        names = [*Policies.names, *self._policies.scripts]
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        model, messages = str(body.get("model")), body.get("messages") or []
        try:
            task = self._index.find(messages)
        except UnknownTask as error:
            return refusal(404, "task_not_found", str(error))
        try:
            message = self._policies.reply(model, task.index, task.data, messages)
        except UnknownPolicy:
            return refusal(404, "model_not_found", f"no policy is called {model!r}")
        except Exception as error:
            return refusal(500, "oracle_raised", f"the oracle raised {type(error).__name__}: {error}")
        return web.json_response(chat_completion(model, message, messages))


def chat_completion(model: str, message: Message, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A response as OpenAI's chat completions API gives it; tokens are counted as words."""
    spoken = {"role": "assistant", "content": message.get("content") or ""}
    if not spoken["content"] and not message.get("tool_calls"):
        spoken["content"] = SILENCE
    if message.get("tool_calls"):
        spoken["tool_calls"] = message["tool_calls"]
    prompt_tokens = sum(len(text_of(dict(one)).split()) for one in messages)
    completion_tokens = len(text_of(spoken).split())
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return {
        "id": f"chatcmpl-{time.monotonic_ns():x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {"index": 0, "message": spoken, "finish_reason": "tool_calls" if spoken.get("tool_calls") else "stop"}
        ],
        "usage": usage | {"total_tokens": prompt_tokens + completion_tokens},
    }


def refusal(status: int, code: str, text: str) -> web.Response:
    """An error in the shape that OpenAI's clients read."""
    return web.json_response({"error": {"message": text, "type": "invalid_request_error", "code": code}}, status=status)
