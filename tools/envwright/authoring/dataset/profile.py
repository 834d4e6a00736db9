"""The profile of a dataset in one pass: columns, types, lengths, gaps, repetitions, overlap, a sample."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from statistics import median
from typing import Any

from envwright.authoring.dataset.source import DatasetSource, DatasetSplit, NumberedRow, numbered

SAMPLE_ROWS = 2_000
TYPES = {str: "text", bool: "boolean", int: "number", float: "number", list: "list", dict: "object"}
MOST_DIGESTS = 200_000
"""The most texts of a column that are kept to find repetitions; 8 bytes each."""


@dataclass(frozen=True)
class ColumnProfile:
    """One column of a split."""

    name: str
    types: Mapping[str, int]
    """Type → number of rows, without missing values."""
    missing: int
    distinct: int
    """Different values, exact up to `MOST_DIGESTS` rows."""
    shortest: int
    typical: int
    longest: int
    """Characters of the value as text; the typical length is the median of a sample."""


@dataclass(frozen=True)
class SplitProfile:
    """The rows of one split that were read."""

    name: str
    rows: int
    complete: bool
    """Whether all rows were read."""
    columns: tuple[ColumnProfile, ...]
    repeated: int
    """Rows that are equal to an earlier one."""
    sample: tuple[NumberedRow, ...] = field(repr=False)
    digests: Mapping[str, frozenset[int]] = field(repr=False)


@dataclass(frozen=True)
class DatasetProfile:
    """A dataset."""

    name: str
    config: str
    revision: str
    splits: tuple[SplitProfile, ...]

    def largest(self) -> SplitProfile:
        return max(self.splits, key=lambda split: (split.name == "train", split.rows))

    def overlap(self, column: str) -> dict[tuple[str, str], int]:
        """Pairs of splits → texts of a column that are in both."""
        found = {}
        for index, one in enumerate(self.splits):
            for other in self.splits[index + 1 :]:
                shared = len(one.digests.get(column, frozenset()) & other.digests.get(column, frozenset()))
                if shared:
                    found[one.name, other.name] = shared
        return found


def profiled(source: DatasetSource, most_rows: int | None = None) -> DatasetProfile:
    """Read a source once.

    Raises `SourceProblem` if a row cannot be read.
    """
    return DatasetProfile(
        source.name, source.config, source.revision, tuple(_split(split, most_rows) for split in source.splits)
    )


class Reservoir:
    """A uniform sample of rows in one pass, the same in every run.

    Source: J. S. Vitter, "Random Sampling with a Reservoir", ACM TOMS 11(1), 1985, algorithm R.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._seen = 0
        self._random = random.Random(0)
        self._rows: list[NumberedRow] = []

    def offer(self, row: NumberedRow) -> None:
        self._seen += 1
        if len(self._rows) < self._size:
            self._rows.append(row)
            return
        place = self._random.randrange(self._seen)
        if place < self._size:
            self._rows[place] = row

    def rows(self) -> list[NumberedRow]:
        """The sample in the order of the source."""
        return sorted(self._rows, key=lambda row: row[0])


class _Tally:
    """The counts of one column while rows are read."""

    def __init__(self) -> None:
        self.types: Counter[str] = Counter()
        self.lengths: list[int] = []
        self.shortest, self.longest = 10**12, 0
        self.digests: set[int] = set()
        self.texts: set[int] = set()

    def take(self, value: Any) -> None:
        self.types[TYPES.get(type(value), type(value).__name__)] += 1
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        self.shortest, self.longest = min(self.shortest, len(text)), max(self.longest, len(text))
        if len(self.lengths) < SAMPLE_ROWS:
            self.lengths.append(len(text))
        if len(self.digests) < MOST_DIGESTS:
            self.digests.add(_digest(text))
            if isinstance(value, str):
                self.texts.add(_digest(" ".join(text.casefold().split())))

    def column(self, name: str, rows: int) -> ColumnProfile:
        filled = sum(self.types.values())
        shortest, typical = (self.shortest, int(median(self.lengths))) if filled else (0, 0)
        return ColumnProfile(name, dict(self.types), rows - filled, len(self.digests), shortest, typical, self.longest)


def _split(split: DatasetSplit, most_rows: int | None) -> SplitProfile:
    tallies: dict[str, _Tally] = {}
    sample, seen = Reservoir(SAMPLE_ROWS), set[int]()
    count = repeated = 0
    for number, row in numbered(split, most_rows):
        count = number
        sample.offer((number, row))
        digest = _digest(json.dumps(row, sort_keys=True, default=str))
        repeated += digest in seen
        if len(seen) < MOST_DIGESTS:
            seen.add(digest)
        for name, value in row.items():
            tally = tallies.setdefault(name, _Tally())
            if value is not None and (not isinstance(value, str) or value.strip()):
                tally.take(value)
    columns = tuple(tally.column(name, count) for name, tally in tallies.items())
    complete = most_rows is None or count < most_rows
    digests = {name: frozenset(tally.texts) for name, tally in tallies.items()}
    return SplitProfile(split.name, count, complete, columns, repeated, tuple(sample.rows()), digests)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
