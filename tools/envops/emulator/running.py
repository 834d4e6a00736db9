"""The emulator as a thread of this process: for rehearsals and tests."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from envops.emulator.accounts import KEY, Accounts
from envops.emulator.behaviour import Behaviour
from envops.emulator.faults import Faults, parse_fault
from envops.emulator.hub import Hub
from envops.emulator.server import CONTROL, application
from envops.emulator.store import Store
from envops.system.loopback import served


@dataclass(frozen=True)
class Running:
    """A running emulator and how to speak with it from outside of the Hub's API."""

    url: str
    key: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that send the prime CLI here."""
        return {
            "PRIME_API_KEY": self.key,
            "PRIME_API_BASE_URL": self.url,
            "PRIME_DISABLE_VERSION_CHECK": "1",
            "NO_PROXY": "127.0.0.1",
        }

    def journal(self, method: str = "", path: str = "") -> list[dict[str, Any]]:
        """Requests so far; of one method, with a text in their path."""
        rows = self.control("GET", "journal")
        return [row for row in rows if method in row.get("method", "") and path in row.get("path", "")]

    def writes(self) -> list[dict[str, Any]]:
        """Requests so far that were made to change something."""
        return [row for row in self.journal() if row.get("method") not in ("GET", None)]

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """Everything there is, by kind."""
        found: dict[str, list[dict[str, Any]]] = self.control("GET", "state")
        return found

    def break_with(self, *faults: str) -> None:
        """These faults from now on, instead of earlier ones."""
        self.control("PUT", "faults", {"faults": list(faults)})

    def assume(self, *settings: str) -> None:
        """These answers to open questions from now on, instead of earlier ones."""
        self.control("PUT", "assume", {"settings": list(settings)})

    def control(self, method: str, what: str, body: Any = None) -> Any:
        content = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}{CONTROL}/{what}", content, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            return json.loads(answer.read())


@contextmanager
def emulator(
    folder: Path,
    *,
    user: str = "rehearsal",
    teams: Sequence[str] = (),
    key: str = KEY,
    behaviour: Behaviour | None = None,
    faults: Sequence[str] = (),
    port: int = 0,
) -> Iterator[Running]:
    """Serve until the block ends, with the state in a folder. Raises `OSError` where the port is taken."""
    accounts = Accounts.usual(user, tuple(teams), key)
    broken = Faults([parse_fault(text) for text in faults])

    @asynccontextmanager
    async def opened() -> AsyncIterator[web.Application]:
        with closing(Store(folder)) as store:
            yield application(Hub(store, accounts, behaviour), broken)

    with served("emulator", opened, port=port, shutdown_timeout=0.1) as server:
        yield Running(f"http://127.0.0.1:{server.port}", key)
