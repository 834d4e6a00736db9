"""How much fits on one page: texts get shorter, curves thinner, and at the last some details stay away."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from envops.judge.verdict import VERDICTS
from envops.report.html.compact import Beside, harmless, page_environment
from envops.report.html.embedding import embedded
from envops.report.plain_data import plain_data
from envops.report.visible_text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from markupsafe import Markup

    from envops.report.run_report import RunReport

LENGTHS = (250_000, 20_000, 4_000, 1_000, 300, 120)
"""How long a text may be: the first length with which everything fits."""
RUN_TEXT = 4_000
POINTS = (1_000, 300, 100, 30)
"""How many points a curve may have: the first number with which the runs keep to their part of the page."""
RUNS_PART = 0.3


@dataclass(frozen=True)
class Fitted:
    """What the page holds, as JSON."""

    environments: tuple[tuple[str, Markup], ...]
    runs: tuple[tuple[RunReport, Markup], ...]
    longest: int
    """How long a text may be."""
    left_out: int = 0
    """Environments whose details found no room."""

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
    """Everything as it fits into so many bytes; what matters least gives way first."""
    shown_runs = _runs(runs, int(room * RUNS_PART))
    room -= sum(_size(blob) for _, blob in shown_runs)
    diffs = {one["name"]: one for one in (diff or {}).get("environments", [])}
    beside = {
        name: Beside(diffs.get(name), [each for each in compared if each["environment"] == name])
        for name in {*diffs, *(each["environment"] for each in compared)}
    }
    for longest in LENGTHS:
        found = _environments(environments, beside, longest, room)
        if len(found) == len(environments):
            return Fitted(tuple(found), shown_runs, longest)
    verdicts = [one["verdict"] for one in environments]
    order = sorted(range(len(verdicts)), key=lambda index: VERDICTS.index(verdicts[index]))
    found = _environments(map(environments.__getitem__, order), beside, LENGTHS[-1], room)
    return Fitted(tuple(found), shown_runs, LENGTHS[-1], len(verdicts) - len(found))


def _environments(
    environments: Iterable[Mapping[str, Any]], beside: Mapping[str, Beside], longest: int, room: int
) -> list[tuple[str, Markup]]:
    """The first of them, as many as there is room for."""
    found: list[tuple[str, Markup]] = []
    for environment in environments:
        blob = embedded(page_environment(environment, beside.get(environment["name"], Beside()), longest))
        room -= _size(blob)
        if room < 0:
            break
        found.append((visible(environment["name"]), blob))
    return found


def _runs(runs: Sequence[RunReport], room: int) -> tuple[tuple[RunReport, Markup], ...]:
    shown: tuple[tuple[RunReport, Markup], ...] = ()
    for most in POINTS:
        shown = tuple((run, embedded(page_run(run, most))) for run in runs)
        if sum(_size(blob) for _, blob in shown) <= room:
            break
    return shown


def page_run(run: RunReport, most: int = POINTS[0]) -> dict[str, Any]:
    """A run for the page, with at most so many points on a curve: evenly chosen, the last among them, and said so."""
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
