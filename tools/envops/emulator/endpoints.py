"""One request, its answer, and the table of endpoints with what is known about each."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from envops.emulator.accounts import Account
    from envops.emulator.hub import Hub

Known = Literal["measured", "read", "assumed"]
MEASURED: Known = "measured"
READ: Known = "read"
ASSUMED: Known = "assumed"


@dataclass(frozen=True)
class Asked:
    """One request as an endpoint sees it."""

    number: int
    """Its own, also after a restart: whatever a request creates is named after it."""
    method: str
    path: str
    """Below /api/v1, or from the root for uploads and downloads."""
    account: Account | None
    """Whose key came with it; `None` without a key or with an unknown one."""
    address: str
    """Of the emulator, as the caller reached it: http://127.0.0.1:8000."""
    parts: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """The JSON document that was sent."""
    content: bytes = b""
    """What was sent, where it is no JSON document."""

    def named(self, kind: str) -> str:
        """The id of what this request creates: the same if it is carried out a second time, later."""
        return f"{kind}_{hashlib.sha256(f'{kind} {self.number}'.encode()).hexdigest()[:20]}"

    def text(self, key: str) -> str:
        """A text of the body. Raises `Refused` (422) without one."""
        value = self.body.get(key) if isinstance(self.body, dict) else None
        if not isinstance(value, str) or not value:
            detail = [{"loc": ["body", key], "msg": "Field required", "type": "missing"}]
            raise Refused(422, detail)
        return value

    def number_of(self, key: str, default: int, most: int | None = None) -> int:
        """A whole number of the query, kept between 0 and `most`."""
        text = self.query.get(key, "")
        value = int(text) if text.isdecimal() else default
        return min(value, most) if most is not None else value

    def is_set(self, key: str) -> bool:
        return self.query.get(key, "").lower() in ("true", "1")


@dataclass(frozen=True)
class Reply:
    """What is answered: a JSON document or bytes."""

    body: Any = None
    status: int = 200
    content: bytes | None = None
    kind: str = "application/json"

    def encoded(self) -> bytes:
        if self.content is not None:
            return self.content
        return b"" if self.status == 204 else json.dumps(self.body).encode()


class Refused(Exception):
    """The answer is an error; nothing of the request takes effect."""

    def __init__(self, status: int, detail: Any) -> None:
        self.status = status
        self.detail = detail
        super().__init__(f"{status}: {detail}")

    @property
    def reply(self) -> Reply:
        return Reply({"detail": self.detail}, self.status)


Handler = Callable[["Hub", Asked], Reply]


@dataclass(frozen=True)
class Endpoint:
    """A way to ask, how it is known, and what had to be assumed about the real server."""

    method: str
    path: str
    known: Known
    about: str
    assumes: Sequence[str]
    handler: Handler
    pattern: re.Pattern[str]

    def matches(self, method: str, path: str) -> Mapping[str, str] | None:
        found = self.pattern.fullmatch(path) if method == self.method else None
        return found.groupdict() if found else None


ENDPOINTS: list[Endpoint] = []


def endpoint(method: str, path: str, known: Known, *assumes: str) -> Callable[[Handler], Handler]:
    """Put a handler into the table; `{name}` in the path is a part without a slash, `{name:path}` one with."""

    def added(handler: Handler) -> Handler:
        pattern = re.sub(r"\\\{(\w+):path\\\}", r"(?P<\1>.+)", re.escape(path))
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", pattern)
        about = (handler.__doc__ or "").strip().split("\n")[0]
        ENDPOINTS.append(Endpoint(method, path, known, about, assumes, handler, re.compile(pattern)))
        return handler

    return added


def now() -> str:
    """The time as the Hub writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
