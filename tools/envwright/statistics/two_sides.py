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
    """A pair of values, one for each side."""

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
        """The result of a function for each side."""
        return TwoSides(function(self.before), function(self.after))
