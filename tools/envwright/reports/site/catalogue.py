"""The site's entry of each environment: its declaration, its README and its results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envwright_worker.policies.baselines import oracle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from envwright.declarations.package import Package
    from envwright.declarations.registry import EnvironmentEntry, ExternalEntry
    from envwright.reports.run_report import RunReport

HUB = "https://app.primeintellect.ai/dashboard/environments"


@dataclass(frozen=True)
class ListedEnvironment:
    """One environment of this repository."""

    name: str
    version: str
    description: str
    tags: tuple[str, ...]
    generation: str | None
    visibility: str
    owners: tuple[str, ...]
    hub: str
    digest: str
    readme: str
    proven: Mapping[str, Any] | None
    """Its part of validate.json; `None` if no report has it."""
    stale: bool
    """Whether the report has another digest than the folder on disk."""
    runs: tuple[str, ...] = ()
    published: str | None = None
    """The version on the Hub according to the last release."""

    @property
    def verdict(self) -> str | None:
        return None if self.proven is None or self.stale else str(self.proven["verdict"])

    @property
    def baselines(self) -> list[Mapping[str, Any]]:
        """The recorded baselines, by policy or model."""
        return [one for one in (self.proven or {}).get("recordings", []) if one["mean"] is not None]

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Every function with scores, weighted ones first, with the oracle's means."""
        profiles = (self.proven or {}).get("profiles", [])
        gold = next((one for one in profiles if one["policy"] == oracle.name), None)
        return [spread for spread in gold["spreads"] if spread["kind"] != "total"] if gold else []


@dataclass(frozen=True)
class Catalogue:
    """The data of the site."""

    owner: str
    listings: tuple[ListedEnvironment, ...]
    external: tuple[ExternalEntry, ...] = ()
    runs: tuple[RunReport, ...] = ()
    declared_runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    report: Mapping[str, Any] | None = None
    diff: Mapping[str, Any] | None = None
    reports: Path | None = None
    """The folder of the report, with its transcripts."""


def listing_of(
    entry: EnvironmentEntry,
    package: Package,
    readme: str,
    report: Mapping[str, Any] | None,
    runs: Mapping[str, Mapping[str, Any]],
    released: Mapping[str, Any] | None = None,
) -> ListedEnvironment:
    """The listing of one environment; `released` is the data of release.json."""
    environments = report["environments"] if report else []
    proven = next((one for one in environments if one["name"] == entry.name), None)
    used = [name for name, run in runs.items() if any(one.get("id") == entry.name for one in run["environments"])]
    return ListedEnvironment(
        name=entry.name,
        version=package.version,
        description=package.description,
        tags=package.tags,
        generation=package.generation,
        visibility=entry.visibility,
        owners=entry.owners,
        hub=f"{HUB}/{entry.owner}/{entry.name}",
        digest=package.digest,
        readme=readme,
        proven=proven,
        stale=proven is not None and proven["digest"] != package.digest,
        runs=tuple(used),
        published=_published(entry.name, released),
    )


def _published(name: str, released: Mapping[str, Any] | None) -> str | None:
    """The version that a release published, or found on the Hub with the declared content."""
    for one in (released or {}).get("environments", []):
        if one["name"] == name and one["result"] in ("published", "unchanged"):
            return str(one["package_version"])
    return None
