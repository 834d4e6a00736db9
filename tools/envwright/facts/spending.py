"""The cost of calls to a real model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tokens:
    """Tokens of one call or of many."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.prompt + other.prompt, self.completion + other.completion)


@dataclass(frozen=True)
class Spending:
    """The spending of a run so far."""

    calls: int = 0
    """Calls that the environment made."""
    answered: int = 0
    failed: int = 0
    """Calls that were given up after all attempts."""
    refused: int = 0
    """Calls that were not made, because of the ceiling or a refusal of the endpoint's."""
    retries: int = 0
    unmeasured: int = 0
    """Attempts for which the endpoint reported no usage; they count with their upper bound."""
    tokens: Tokens = Tokens()
    cost: float = 0.0

    def since(self, earlier: Spending) -> Spending:
        """The spending since an earlier snapshot of the same run."""
        counted = ("calls", "answered", "failed", "refused", "retries", "unmeasured", "cost")
        tokens = Tokens(self.tokens.prompt - earlier.tokens.prompt, self.tokens.completion - earlier.tokens.completion)
        return Spending(**{name: getattr(self, name) - getattr(earlier, name) for name in counted}, tokens=tokens)
