"""The size limit of a page: texts are shortened, curves thinned, and finally details left out."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from envwright.reports.html.compact import Beside, page_environment
from envwright.reports.html.embedding import embedded
from envwright.rules.verdict import VERDICTS
from envwright.text.harmless import harmless
from envwright.text.plain_data import plain_data
from envwright.text.visible_text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from markupsafe import Markup

    from envwright.reports.run_report import RunReport

LENGTHS = (250_000, 20_000, 4_000, 1_000, 300, 120)
"""The lengths of texts to try: the first with which everything fits is used."""
RUN_TEXT = 4_000
POINTS = (1_000, 300, 100, 30)
"""The numbers of points to try for a curve: the first with which the runs fit into their part of the page is used."""
RUNS_PART = 0.3
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
"""A text in JSON, never shorter than its original."""


@dataclass(frozen=True)
class Fitted:
    """The content of the page as JSON."""

    environments: tuple[tuple[str, Markup], ...]
    runs: tuple[tuple[RunReport, Markup], ...]
    longest: int
    """The most characters of a text."""
    left_out: int = 0
    """Environments whose details did not fit."""
    is_whole: bool = True
    """Whether the page has the reward code of environments that pass, and the prompts of tasks."""

    @property
    def is_shortened(self) -> bool:
        return self.longest < LENGTHS[0]


def fitted(
    environments: Sequence[Mapping[str, Any]],
    diff: Mapping[str, Any] | None,
    runs: Sequence[RunReport],
    room: int,
    compared: Sequence[Mapping[str, Any]] = (),
) -> Fitted:
    """The parts of the page within a number of bytes; the least important parts are cut first."""
    shown_runs = _runs(runs, int(room * RUNS_PART))
    room -= sum(_size(blob) for _, blob in shown_runs)
    diffs = {one["name"]: one for one in (diff or {}).get("environments", [])}
    beside = {
        name: Beside(diffs.get(name), [each for each in compared if each["environment"] == name])
        for name in {*diffs, *(each["environment"] for each in compared)}
    }
    everything = range(len(environments))
    found = _Environments(environments, beside, whole=True).made(everything, LENGTHS[0], room)
    if len(found) == len(environments):
        return Fitted(tuple(found), shown_runs, LENGTHS[0])
    makers = _Environments(environments, beside, whole=False)
    for longest in LENGTHS:
        found = makers.made(everything, longest, room)
        if len(found) == len(environments):
            return Fitted(tuple(found), shown_runs, longest, is_whole=False)
    verdicts = [one["verdict"] for one in environments]
    order = sorted(range(len(verdicts)), key=lambda index: VERDICTS.index(verdicts[index]))
    found = makers.made(order, LENGTHS[-1], room)
    return Fitted(tuple(found), shown_runs, LENGTHS[-1], len(verdicts) - len(found), is_whole=False)


class _Environments:
    """Makes the environments' parts of the page, again only if a shorter text makes a difference."""

    def __init__(self, environments: Sequence[Mapping[str, Any]], beside: Mapping[str, Beside], *, whole: bool) -> None:
        self._environments = environments
        self._whole = whole
        self._beside = beside
        self._parts: dict[int, _Part] = {}
        """The parts by place, up to the first that did not fit."""

    def made(self, order: Iterable[int], longest: int, room: int) -> list[tuple[str, Markup]]:
        """The first of them in this order, as many as fit."""
        found: list[tuple[str, Markup]] = []
        for index in order:
            part = self._parts.get(index)
            if part is None or part.longest > longest:
                part = self._parts[index] = self._part(self._environments[index], longest)
            room -= part.size
            if room < 0:
                break
            found.append((part.name, part.blob))
        return found

    def _part(self, environment: Mapping[str, Any], longest: int) -> _Part:
        beside = self._beside.get(environment["name"], Beside())
        blob = embedded(page_environment(environment, beside, longest, whole=self._whole))
        return _Part(visible(environment["name"]), blob, _size(blob), max(map(len, _TEXT.findall(blob)), default=0))


class _Part(NamedTuple):
    """One environment's part of the page."""

    name: str
    blob: Markup
    size: int
    longest: int
    """An upper bound of the length of its texts."""


def _runs(runs: Sequence[RunReport], room: int) -> tuple[tuple[RunReport, Markup], ...]:
    shown: tuple[tuple[RunReport, Markup], ...] = ()
    for most in POINTS:
        shown = tuple((run, embedded(page_run(run, most))) for run in runs)
        if sum(_size(blob) for _, blob in shown) <= room:
            break
    return shown


def page_run(run: RunReport, most: int = POINTS[0]) -> dict[str, Any]:
    """A run for the page, with at most `points` on a curve: evenly chosen, including the last, with a note."""
    data: dict[str, Any] = plain_data(asdict(run))
    for curve in data["curves"]:
        every = ceil(len(curve["points"]) / most)
        if every > 1:
            thinned = f"One of {every} points is shown."
            curve["about"] = f"{curve['about']} {thinned}".strip()
            curve["points"] = list(_thinned(curve["points"], every))
    shown: dict[str, Any] = harmless(data, RUN_TEXT)
    return shown


def _thinned(points: Sequence[Any], every: int) -> Iterator[Any]:
    for index, point in enumerate(points):
        if index % every == 0 or index == len(points) - 1:
            yield point


def _size(blob: str) -> int:
    return len(blob.encode())
