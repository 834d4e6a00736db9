"""How rewards spread at a step of a run, as the platform tells it.

The prime CLI hands on `bins` or `chartData.histogramData` as they come (prime 0.18.0, api/rl.py), and
what a bin is called is nowhere written down. So the usual names are read, and a bin without them is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LOW = ("low", "min", "start", "bin_start", "binStart", "x0", "lower", "left")
HIGH = ("high", "max", "end", "bin_end", "binEnd", "x1", "upper", "right")
COUNT = ("count", "frequency", "value", "y", "n")


@dataclass(frozen=True)
class Bin:
    """So many rollouts earned from `low` to `high`."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Histogram:
    """The rewards of one step; `None` where the platform does not say of which."""

    step: int | None
    bins: tuple[Bin, ...]


def histogram_of(answer: Any) -> Histogram | None:
    """The histogram of an answer, or `None` where there is none that can be read whole."""
    if not isinstance(answer, Mapping):
        return None
    chart = answer.get("chartData") or answer.get("chart_data")
    raw = answer.get("bins") or (chart.get("histogramData") if isinstance(chart, Mapping) else None)
    if not isinstance(raw, list) or not raw:
        return None
    bins = [_bin(each) for each in raw]
    step = answer.get("step")
    known = tuple(each for each in bins if each is not None)
    return Histogram(step if type(step) is int else None, known) if len(known) == len(raw) else None


def _bin(raw: Any) -> Bin | None:
    if not isinstance(raw, Mapping):
        return None
    low, high, count = (_number(raw, names) for names in (LOW, HIGH, COUNT))
    if low is None or high is None or count is None or high < low or count < 0:
        return None
    return Bin(low, high, int(count))


def _number(raw: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    found = next((raw[name] for name in names if name in raw), None)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
