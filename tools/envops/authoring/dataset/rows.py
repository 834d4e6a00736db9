"""Rows of a source, taken so that a large one costs no more than a small one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from envops.authoring.dataset.source import Row, Split

NumberedRow = tuple[int, Row]


def numbered(split: Split, most: int | None = None) -> Iterator[NumberedRow]:
    """Rows with their place in the split, from 1; at most so many."""
    return islice(enumerate(split.rows(), start=1), most)


class Reservoir:
    """A uniform sample of rows that are seen once, the same in every run.

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
