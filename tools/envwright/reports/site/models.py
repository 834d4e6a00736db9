"""The rewards of models in all environments, as a table in which darkness repeats the number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envwright.reports.site.catalogue import ListedEnvironment

SHADES = 5


@dataclass(frozen=True)
class MeasuredReward:
    """The mean reward of a model in one environment."""

    text: str
    shade: int
    """From 0, the lowest reward, to 4."""
    interval: str
    about: str
    """Its rollouts, version and date."""


@dataclass(frozen=True)
class ModelTable:
    """Environments by rows and models by columns; `None` where nothing is recorded."""

    models: tuple[str, ...]
    rows: tuple[tuple[ListedEnvironment, tuple[MeasuredReward | None, ...]], ...]


def model_table(listings: Sequence[ListedEnvironment]) -> ModelTable:
    """The latest recording of each model in each environment that has one; the highest rewards first.

    Scripted policies are left out, because they do not measure difficulty.
    """
    latest = {listing.name: _latest(listing) for listing in listings}
    models = sorted({model for found in latest.values() for model in found})
    with_models = [listing for listing in listings if latest[listing.name]]
    rows = sorted(with_models, key=lambda one: (-_mean(latest[one.name].values()), one.name))
    return ModelTable(
        tuple(models),
        tuple((one, tuple(_measured(latest[one.name].get(model)) for model in models)) for one in rows),
    )


def _latest(listing: ListedEnvironment) -> dict[str, Mapping[str, Any]]:
    recorded = sorted((one for one in listing.baselines if one["model"]), key=lambda one: str(one["date"] or ""))
    return {str(one["model"]): one for one in recorded}


def _mean(recorded: Any) -> float:
    values = [float(one["mean"]) for one in recorded]
    return sum(values) / len(values)


def _measured(recorded: Mapping[str, Any] | None) -> MeasuredReward | None:
    if recorded is None:
        return None
    mean = float(recorded["mean"])
    interval = recorded["interval"]
    between = f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else ""
    about = f"{recorded['scored']} rollouts, version {recorded['package_version']}, {recorded['date']}"
    return MeasuredReward(f"{mean:.2f}", min(SHADES - 1, max(0, int(mean * SHADES))), between, about)
