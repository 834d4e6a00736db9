"""Requests of a reward to a judge: to an address of the host's relay, which has the key, or refused.

Requests to a chat-completions API beyond this machine are intercepted in the HTTP clients that model clients are
built on.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ipaddress
from concurrent.futures import Future
from typing import Any

UNDECLARED = "judge_not_declared"
"""The code of the error that a judge's request gets if the host declares no judge."""
LIBRARIES = ("httpx", "httpx2")
"""The HTTP libraries of model clients: openai changed from one to the other."""


class JudgeRequests:
    """The requests to a judge, and where they go."""

    def __init__(self, place: str | None) -> None:
        self.place = place
        """The relay's address for requests to a real judge; `None` where none is declared."""
        self.calls = 0
        self.undeclared = 0
        """How many requests were refused because no judge is declared."""

    def install(self) -> None:
        """Intercept the HTTP clients that model clients are built on."""
        for name in LIBRARIES:
            with contextlib.suppress(ImportError):
                self._stand_in(importlib.import_module(name))

    def _stand_in(self, library: Any) -> None:
        send, send_async = library.Client.send, library.AsyncClient.send

        def answered(client: Any, request: Any, **options: Any) -> Any:
            if _is_for_a_judge(request):
                if self._is_relayed:
                    return send(client, self._relayed(library, request), **options)
                return self._response(library, request)
            if (near := self._near(request)) is not None:
                return _received(library, request, *near.result())
            return send(client, request, **options)

        async def answered_async(client: Any, request: Any, **options: Any) -> Any:
            if _is_for_a_judge(request):
                if self._is_relayed:
                    return await send_async(client, self._relayed(library, request), **options)
                return self._response(library, request)
            if (near := self._near(request)) is not None:
                return _received(library, request, *await asyncio.wrap_future(near))
            return await send_async(client, request, **options)

        library.Client.send = answered
        library.AsyncClient.send = answered_async

    @property
    def _is_relayed(self) -> bool:
        return self.place is not None

    def _relayed(self, library: Any, request: Any) -> Any:
        """The same request to the relay, without what the environment sent as a key."""
        self.calls += 1
        headers = {"Content-Type": "application/json"}
        address = f"{self.place}/chat/completions"
        return library.Request("POST", address, headers=headers, content=request.content, extensions=request.extensions)

    def _near(self, _request: Any) -> Future[tuple[int, bytes]] | None:
        """The response of this process's own endpoint, if rollouts need no connection to it."""
        return None

    def _response(self, library: Any, request: Any) -> Any:
        """The refusal of a request that no relay takes."""
        self.undeclared += 1
        error = {"message": f"{UNDECLARED}: registry.yaml declares no judge", "code": UNDECLARED}
        return library.Response(403, json={"error": error}, request=request)


def _received(library: Any, request: Any, status: int, body: bytes) -> Any:
    return library.Response(status, content=body, headers={"Content-Type": "application/json"}, request=request)


def _is_for_a_judge(request: Any) -> bool:
    if not request.url.path.endswith("/chat/completions"):
        return False
    try:
        return not ipaddress.ip_address(request.url.host).is_loopback
    except ValueError:
        return bool(request.url.host != "localhost")
