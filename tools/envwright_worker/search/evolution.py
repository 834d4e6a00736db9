"""The evolutionary part: new replies from old ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from envwright_worker.search.form import AnswerForm

LONGEST = 20_000
_PARTS = re.compile(r"\s+|<[^<>\s]*>|\w+|[^\w\s]")
_JOINTS = ("", " ", "\n", ", ", " or ", "|")


class Evolution:
    """Draws mutations and crossings; equal seeds draw the same."""

    def __init__(self, rng: random.Random, tokens: Sequence[str], forms: Sequence[AnswerForm]) -> None:
        self._rng = rng
        self._tokens = list(tokens) or ["x"]
        self._forms = list(forms)
        self._ways: tuple[Callable[[str], str], ...] = (
            self._insert,
            self._insert,
            self._replace,
            self._drop,
            self._repeat,
            self._frame,
            self._recase,
            self._append,
        )

    def child(self, parents: Sequence[str]) -> str:
        """A child of one or two parents, changed one to three times."""
        reply = self._rng.choice(parents)
        if self._rng.random() < 0.35:
            reply = self._cross(reply, self._rng.choice(parents))
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            reply = self._rng.choice(self._ways)(reply)
        return reply[:LONGEST]

    def _cross(self, one: str, other: str) -> str:
        left, right = _PARTS.findall(one), _PARTS.findall(other)
        start = "".join(left[: self._rng.randint(0, len(left))])
        return start + self._rng.choice(_JOINTS) + "".join(right[self._rng.randint(0, len(right)) :])

    def _place(self, parts: Sequence[str]) -> int:
        return self._rng.randint(0, len(parts))

    def _insert(self, reply: str) -> str:
        parts = _PARTS.findall(reply)
        place = self._place(parts)
        added = [self._rng.choice(_JOINTS), self._rng.choice(self._tokens), self._rng.choice(_JOINTS)]
        return "".join([*parts[:place], *added, *parts[place:]])

    def _append(self, reply: str) -> str:
        return reply + self._rng.choice(_JOINTS) + self._rng.choice(self._tokens)

    def _replace(self, reply: str) -> str:
        parts = _PARTS.findall(reply)
        if not parts:
            return self._rng.choice(self._tokens)
        parts[self._rng.randrange(len(parts))] = self._rng.choice(self._tokens)
        return "".join(parts)

    def _drop(self, reply: str) -> str:
        parts = _PARTS.findall(reply)
        start, end = sorted((self._place(parts), self._place(parts)))
        return "".join([*parts[:start], *parts[end:]])

    def _repeat(self, reply: str) -> str:
        return self._rng.choice(_JOINTS).join([reply] * self._rng.choice((2, 2, 3, 10)))

    def _frame(self, reply: str) -> str:
        return self._rng.choice(self._forms).saying(reply) if self._forms else reply

    def _recase(self, reply: str) -> str:
        return self._rng.choice((reply.lower, reply.upper, reply.title, reply.strip))()
