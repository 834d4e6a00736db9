"""The two sides of a comparison: two versions of a package, or two models on the same tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

SideName = Literal["before", "after"]

Value = TypeVar("Value")
Result = TypeVar("Result")


@dataclass(frozen=True)
class TwoSides(Generic[Value]):
    """The same kind of thing on both sides."""

    before: Value
    after: Value

    def __iter__(self) -> Iterator[Value]:
        yield self.before
        yield self.after

    @property
    def named(self) -> tuple[tuple[SideName, Value], tuple[SideName, Value]]:
        """Both with the names of their sides."""
        return ("before", self.before), ("after", self.after)

    def each(self, function: Callable[[Value], Result]) -> TwoSides[Result]:
        """What a function returns for each side."""
        return TwoSides(function(self.before), function(self.after))
