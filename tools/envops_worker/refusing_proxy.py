"""A proxy on loopback that refuses every request and records its host.

Programs that a harness starts have their own sockets, which no audit hook sees. curl, npm, uv and pip use the proxy of
their variables, so the hosts that they need can be reported.
"""

from __future__ import annotations

import asyncio
import re

LONGEST_HEAD = 16_384
SECONDS = 10.0
_ASKED = re.compile(rb"[A-Z]+ (?:https?://)?(?:[^@/\s]*@)?([A-Za-z0-9.\-]+|\[[0-9a-fA-F:.]+\])(?::(\d+))?[/ ]")
_REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class RefusingProxy:
    """Serves on the loop that it was begun on, as long as that runs."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        """Each requested `host:port`, once, in order."""
        self._server: asyncio.Server | None = None

    async def begin(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._refuse, "127.0.0.1", 0, limit=LONGEST_HEAD)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that make programs use this proxy, and try once."""
        assert self._server is not None
        address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        told = {spelt: address for name in names for spelt in (name, name.lower())}
        local = "127.0.0.1,localhost,::1"
        once = {"UV_HTTP_RETRIES": "0", "npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}
        return {**told, "NO_PROXY": local, "no_proxy": local, **once}

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                asked = address_in(await reader.readuntil(b"\r\n"))
                if asked and asked not in self.wanted:
                    self.wanted.append(asked)
                writer.write(_REFUSAL)
                await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # whatever it was, it got nothing
        finally:
            writer.close()


def address_in(line: bytes) -> str | None:
    """`host:port` of a proxy request's first line; `None` if it has none."""
    found = _ASKED.match(line)
    if found is None:
        return None
    port = found[2] or (b"443" if b"https://" in line or line.startswith(b"CONNECT") else b"80")
    return f"{found[1].decode()}:{port.decode()}"
