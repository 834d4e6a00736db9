"""The emulated Hub without its transport: a request goes in, an answer comes out, and the store has changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

from envops.emulator.accounts import Account, Accounts
from envops.emulator.behaviour import Behaviour
from envops.emulator.endpoints import ENDPOINTS, Asked, Endpoint, Refused, Reply, now
from envops.emulator.store import Document, Store

Row = TypeVar("Row")

SECRET_KEYS = frozenset({"value", "wandbApiKey", "hfToken", "custom_secrets"})
"""Parts of a request that are secret; no file of the emulator holds them."""


class Hub:
    """State, accounts and behaviour; the endpoints work on it."""

    def __init__(self, store: Store, accounts: Accounts, behaviour: Behaviour | None = None) -> None:
        self.store = store
        self.accounts = accounts
        self.behaviour = behaviour or Behaviour()
        self.began = now()

    def answer(self, asked: Asked, *, effect: bool = True) -> Reply:
        """Carry a request out; without `effect`, say what would be answered and leave everything as it was."""
        try:
            found, parts = _endpoint(asked)
            with self.store.transaction():
                reply = found.handler(self, replace(asked, parts=parts))
                if not effect:
                    raise _Undo(reply)
        except _Undo as undo:
            return undo.reply
        except Refused as refused:
            return refused.reply
        return reply

    def postpone(self, asked: Asked, seconds: float, reads: int | None) -> Reply:
        """Answer now, and let it take effect later."""
        reply = self.answer(asked, effect=False)
        if reply.status < 400:
            kept = asdict(replace(asked, body=without_secrets(asked.body), content=b""))
            if asked.content:
                self.store.write_file(f"pending-{asked.number}", asked.content)
            self.store.postpone(asked.number, time.time() + seconds, reads, {**kept, "content": ""})
        return reply

    def catch_up(self) -> None:
        """Carry out what was postponed and is due."""
        for number, kept in self.store.take_due(time.time()):
            account = Account(**kept["account"]) if kept["account"] else None
            content = self.store.read_file(f"pending-{number}") or b""
            self.answer(Asked(**{**kept, "account": account, "content": content}))

    def environment(self, owner: str, name: str) -> Document | None:
        return self.store.get("environment", f"{owner}/{name}")

    def sees(self, account: Account | None, environment: Document) -> bool:
        return environment["visibility"] == "PUBLIC" or (account is not None and environment["owner"] in account.owners)

    def visible(self, account: Account | None, owner: str, name: str) -> Document:
        """The environment, where the account may see it. Raises `Refused`: 404, not 403."""
        found = self.environment(owner, name)
        if found is None or not self.sees(account, found):
            raise Refused(404, "Environment not found")
        return found

    def page(self, asked: Asked, rows: list[Row], offset: str, usual: int) -> list[Row]:
        """The part of a list that is asked for."""
        if self.behaviour.paging == "ignored":
            return rows
        start = asked.number_of(offset, 0)
        return rows[start : start + asked.number_of("limit", usual, self.behaviour.page_limit)]


def without_secrets(body: Any) -> Any:
    """What was sent, without what may not be written down."""
    if isinstance(body, dict):
        return {key: "…" if key in SECRET_KEYS else without_secrets(value) for key, value in body.items()}
    return [without_secrets(value) for value in body] if isinstance(body, list) else body


class _Undo(Exception):
    def __init__(self, reply: Reply) -> None:
        self.reply = reply


def _endpoint(asked: Asked) -> tuple[Endpoint, Mapping[str, Any]]:
    methods = set()
    for candidate in ENDPOINTS:
        if (parts := candidate.matches(asked.method, asked.path)) is not None:
            return candidate, parts
        if candidate.pattern.fullmatch(asked.path):
            methods.add(candidate.method)
    raise Refused(405 if methods else 404, "Method Not Allowed" if methods else "Not Found")
