"""The cost of calls to a model: reserved before they are made, and counted when they are answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envwright.declarations.endpoints import Endpoint
from envwright.facts.results import Spending, Tokens

TOKENS_PER_MESSAGE = 16
"""The most tokens that a chat template adds to a message."""
CALLS_OF_CONVERSATION = 10
"""The assumed number of calls in a rollout of a multi-turn environment."""


class SpendingLimit:
    """Keeps the cost of a run, including running calls, below a limit; safe for several threads."""

    def __init__(self, endpoint: Endpoint, ceiling: float | None) -> None:
        self._endpoint = endpoint
        self.ceiling = ceiling
        self._lock = threading.Lock()
        self._reserved = 0.0
        self._in_flight = 0
        self._spending = Spending()

    @property
    def spending(self) -> Spending:
        with self._lock:
            return self._spending

    @property
    def is_waiting(self) -> bool:
        """Whether a running call may use less than its reservation."""
        with self._lock:
            return self._in_flight > 0

    def count(self, **more: int) -> None:
        """Add to counters of `Spending` by name."""
        with self._lock:
            now = self._spending
            self._spending = replace(now, **{name: getattr(now, name) + number for name, number in more.items()})

    def reserve(self, bound: Tokens) -> bool:
        """Reserve the most that a call may cost; `False` if that could exceed the limit."""
        cost = self._endpoint.cost(bound.prompt, bound.completion)
        with self._lock:
            if self.ceiling is not None and self._spending.cost + self._reserved + cost > self.ceiling + 1e-12:
                return False
            self._reserved += cost
            self._in_flight += 1
            return True

    def settle(self, bound: Tokens, used: Tokens | None) -> None:
        """Release the reservation and charge the usage."""
        with self._lock:
            self._in_flight -= 1
            self._reserved -= self._endpoint.cost(bound.prompt, bound.completion)
            if not self._in_flight:
                self._reserved = 0.0  # removes rounding errors of sums
            if used is not None:
                now = self._spending
                cost = now.cost + self._endpoint.cost(used.prompt, used.completion)
                self._spending = replace(now, tokens=now.tokens + used, cost=cost)


def bound_of_prompt(messages: Sequence[Mapping[str, Any]], tools: Any = None) -> int:
    """The most tokens of a conversation: no tokenizer makes more tokens than bytes."""
    text = json.dumps([messages, tools], ensure_ascii=False, default=str)
    return len(text.encode("utf-8", "replace")) + TOKENS_PER_MESSAGE * (len(messages) + 1)


@dataclass(frozen=True)
class CostEstimate:
    """The most that an evaluation may use."""

    tasks: int
    rollouts: int
    calls: int
    tokens: Tokens
    cost: float | None
    """Dollars; `None` if no prices are configured."""
    calls_guessed: bool = False
    """The number of calls is an assumption, because the environment is multi-turn; the limit holds in any case."""


def estimate(
    endpoint: Endpoint, prompts: Sequence[Sequence[Mapping[str, Any]]], rollouts: int, *, conversational: bool
) -> CostEstimate:
    """The upper bound for a number of rollouts on each of these tasks.

    Later calls of a conversation send all earlier messages again.
    """
    turns = CALLS_OF_CONVERSATION if conversational else 1
    opening = sum(bound_of_prompt(prompt) for prompt in prompts)
    repeated = len(prompts) * endpoint.max_tokens * (turns * (turns - 1) // 2)
    tokens = Tokens(rollouts * (opening * turns + repeated), rollouts * len(prompts) * endpoint.max_tokens * turns)
    cost = endpoint.cost(tokens.prompt, tokens.completion) if endpoint.has_prices else None
    count = len(prompts) * rollouts
    return CostEstimate(len(prompts), count, count * turns, tokens, cost, conversational)
