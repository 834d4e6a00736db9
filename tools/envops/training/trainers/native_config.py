"""A trainer's own configuration while it is being made: every value knows where it came from."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from envops.repository.run import RunSpec

Path = tuple[str | int, ...]


@dataclass
class NativeConfig:
    """Nested values, and by path the reason why each is there."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """What was declared and has no place in this trainer's configuration, with the reason."""
    misfits: dict[str, str] = field(default_factory=dict)
    """Path of an override that is of another kind than what it replaces → what was there and what came."""

    def put(self, path: str | Path, value: Any, origin: str) -> None:
        """Set a value; tables on the way are made, `None` is nothing to set."""
        if value is None:
            return
        steps = path_of(path)
        holder: Any = self.values
        for step, following in pairwise(steps):
            fresh: Any = [] if isinstance(following, int) else {}
            if isinstance(step, int):
                if step == len(holder):
                    holder.append(fresh)
                holder = holder[step]
            else:
                holder = holder.setdefault(step, fresh)
        holder[steps[-1]] = copy.deepcopy(value)
        self.origins[steps] = origin

    def table(self, path: str | Path) -> None:
        """Make sure that a table is there, be it empty."""
        holder: Any = self.values
        for step in path_of(path):
            holder = holder.setdefault(step, {})

    def merge(self, overrides: Mapping[str, Any], origin: str) -> None:
        """Merge declared overrides: tables key by key, everything else as a whole."""
        for steps, value in leaves(overrides):
            holder = self.values
            for step in steps[:-1]:
                if not isinstance(holder.get(step), dict):
                    self._compare(steps, holder.get(step), {})
                    holder[step] = {}
                holder = holder[step]
            replaced = holder.get(steps[-1])
            self._compare(steps, replaced, value)
            holder[steps[-1]] = copy.deepcopy(value)
            for known in [known for known in self.origins if known[: len(steps)] == steps]:
                del self.origins[known]
            told = f"; replaces {replaced}" if replaced is not None and not isinstance(replaced, dict | list) else ""
            self.origins[tuple(steps)] = origin + told

    def _compare(self, steps: tuple[str, ...], replaced: Any, value: Any) -> None:
        if replaced is not None and _kind(replaced) != _kind(value):
            self.misfits[".".join(steps)] = f"{_kind(replaced)} is replaced by {_kind(value)}"

    def origin(self, path: Path) -> str:
        """Why a value is there: its own reason, or that of what holds it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return ""


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds: tuple[tuple[Any, str], ...] = ((dict, "a table"), (list | tuple, "a list"), (int | float, "a number"))
    return next((name for types, name in kinds if isinstance(value, types)), "nothing" if value is None else "text")


def path_of(path: str | Path) -> Path:
    """A dotted path as steps."""
    return tuple(path.split(".")) if isinstance(path, str) else path


def leaves(values: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is no table, and every empty table, with its path."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*before, key))
        else:
            yield (*before, key), value


def origin(spec: RunSpec, key: str, note: str = "") -> str:
    """Where a declared value came from, as a comment says it: the place in the registry, or a default."""
    said = f"runs.{spec.name}.{key}" if spec.says(key) else f"default of {key}"
    return f"{said}; {note}" if note else said
