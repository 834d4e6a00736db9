"""registry.yaml: what is published and what is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Visibility = Literal["PUBLIC", "PRIVATE"]


@dataclass(frozen=True)
class SmokeGate:
    """Size and limits of the smoke evaluation."""

    tasks: int = 10
    rollouts: int = 3
    max_concurrent: int = 32
    timeout_s: float = 300.0


@dataclass(frozen=True)
class DistributionGate:
    """Thresholds of the distribution gate; rewards are taken as a share of the declared range."""

    min_rollouts: int = 20
    min_mean: float = 0.05
    max_mean: float = 0.95
    min_std: float = 0.05
    min_format: float = 0.3
    min_live_groups: float = 0.3
    group_size: int = 8
    confidence: float = 0.95


@dataclass(frozen=True)
class Gates:
    """Settings of the gates, registry defaults already merged in."""

    smoke: SmokeGate = SmokeGate()
    distribution: DistributionGate = DistributionGate()


@dataclass(frozen=True)
class EnvironmentEntry:
    """One environment of this repository, as the registry declares it."""

    name: str
    visibility: Visibility = "PRIVATE"
    owner: str = ""
    owners: tuple[str, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    publish_evals: bool = False
    gates: Gates = Gates()
    ignore: Mapping[str, str] = field(default_factory=dict)
    """Rule id → the reason why it is ignored here."""
    line: int | None = None

    @property
    def folder_name(self) -> str:
        """The folder below `environments/`, which is also the name of the module."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class ExternalEntry:
    """An environment that is on the Hub already and only used by runs."""

    name: str
    hub_owner: str
    hub_name: str
    version: str
    line: int | None = None


@dataclass(frozen=True)
class Registry:
    """The whole of registry.yaml."""

    owner: str
    environments: Mapping[str, EnvironmentEntry]
    external: Mapping[str, ExternalEntry] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
