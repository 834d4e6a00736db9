"""A run that is under way: from the platform, or from what its trainer writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any

from envops.facts.training_log import RunMetrics
from envops.hub.runs import Histogram
from envops.reports.run_report import Curve, CurvePoint, RewardBin, RunFinding, RunReport, RunStatus
from envops.rules.diagnosis.subject import Diagnosed
from envops.rules.engine import Finding, findings
from envops.statistics.intervals import t_quantile
from envops.statistics.series import Series, series_of
from envops.training.registry_patch import registry_patch

if TYPE_CHECKING:
    from envops.repository.package import Package
    from envops.repository.run import RunSpec

STATUSES: Mapping[str, RunStatus] = {
    "QUEUED": "queued",
    "PENDING": "queued",
    "RUNNING": "running",
    "PAUSED": "stopped",
    "COMPLETED": "finished",
    "FAILED": "failed",
    "STOPPED": "stopped",
    "CANCELLED": "stopped",
    "MISSING": "unknown",
}
CURVES = (
    ("reward", "reward", "mean over the rollouts of a step"),
    ("eval", "eval reward", ""),
    ("reward_std", "spread of rewards", "standard deviation over the rollouts of a step"),
    ("dead_groups", "groups without variance", "share of groups whose rewards are all equal"),
    ("entropy", "entropy", ""),
    ("kl", "KL to the sampled policy", ""),
    ("grad_norm", "gradient norm", ""),
    ("truncated", "truncated rollouts", "share of rollouts that ran into their limit"),
    ("errors", "broken rollouts", "share of rollouts that ended with an error"),
    ("off_policy", "age of rollouts", "steps between the policy that sampled and the one that is trained"),
    ("length", "tokens", ""),
    ("learning_rate", "learning rate", ""),
)
"""Our name of a metric, what reports call it, and what it says."""
INTERVAL = "the band is its 95 % interval, each group counted as one observation"


@dataclass(frozen=True)
class Followed:
    """One run, as far as it is known now."""

    name: str
    metrics: RunMetrics
    spec: RunSpec | None = None
    status: str = ""
    """The platform's word; empty where there is no platform."""
    identity: str = ""
    model: str = ""
    planned_steps: int | None = None
    started: str = ""
    dollars: float | None = None
    checkpoints: tuple[Mapping[str, Any], ...] = ()
    samples: tuple[Mapping[str, Any], ...] = ()
    histogram: Histogram | None = None
    notes: tuple[str, ...] = ()
    packages: Mapping[str, Package] = field(default_factory=dict)
    """Of the environments that lie here, for the range of their rewards."""

    @property
    def series(self) -> dict[str, Series]:
        """The metrics under our names."""
        return series_of(self.metrics)

    @property
    def subject(self) -> Diagnosed:
        """What the rules of diagnoses look at."""
        lowest, highest = self.range
        planned = self.planned_steps or (self.spec.max_steps if self.spec else None)
        return Diagnosed(
            series=self.series,
            spec=self.spec,
            status=self.status,
            planned_steps=planned,
            missing_steps=self.metrics.missing,
            broken=self.metrics.broken,
            log=self.metrics.log,
            lowest=lowest,
            highest=highest,
        )

    @property
    def range(self) -> tuple[float, float]:
        """The range of the reward, by the environments' declarations; 0 to 1 where they say nothing."""
        used = [self.packages.get(source.id) for source in self.spec.environments] if self.spec else []
        lows = [package.reward.min for package in used if package is not None and package.reward.min is not None]
        highs = [package.reward.max for package in used if package is not None and package.reward.max is not None]
        return min([0.0, *lows]), max(highs) if highs else 1.0


def diagnose(run: Followed) -> tuple[Finding, ...]:
    """What the signatures find."""
    return tuple(findings(run.subject))


def report_of(run: Followed, found: tuple[Finding, ...], registry_text: str = "") -> RunReport:
    """The run as reports show it; a change of the registry is a patch where its text is at hand."""
    series = run.series
    spec = run.spec
    settings = {"batch_size", "rollouts_per_example", "learning_rate", "max_steps", "seq_len"}
    config = {name: getattr(spec, name) for name in sorted(settings)} if spec else {}
    return RunReport(
        name=run.name,
        backend=spec.backend if spec else "",
        model=run.model or (spec.model if spec else ""),
        environments=tuple(source.label for source in spec.environments) if spec else (),
        status=STATUSES.get(run.status.upper(), "unknown"),
        identity=run.identity,
        started=run.started,
        steps_done=run.metrics.last_step,
        steps_planned=run.planned_steps or (spec.max_steps if spec else None),
        cost=run.dollars,
        curves=tuple(_curves(run, series)),
        findings=tuple(
            replace(_finding(each, spec, registry_text), curve=_curve_of(each, series))
            for each in found
            if each.ignored is None
        ),
        rewards=tuple(RewardBin(each.low, each.high, each.count) for each in run.histogram.bins)
        if run.histogram
        else (),
        rewards_step=run.histogram.step if run.histogram else None,
        config=config,
        notes=run.notes,
    )


def _curves(run: Followed, series: Mapping[str, Series]) -> Iterator[Curve]:
    """The known metrics; a step without a number is a gap in the curve, and no line leads across it."""
    for ours, shown, about in CURVES:
        if ours not in series:
            continue
        known = dict(series[ours].points)
        spread = _half_widths(run, series) if ours == "reward" else {}
        steps = sorted({*known, *_gaps(run.metrics, series[ours])})
        points = tuple(_point(step, known.get(step), spread.get(step)) for step in steps)
        said = about or f"{series[ours].metric}, as the trainer logs it"
        yield Curve(shown, points, about=f"{said}; {INTERVAL}" if spread else said)


def _point(step: int, value: float | None, half: float | None) -> CurvePoint:
    if value is None or half is None:
        return CurvePoint(step, value)
    return CurvePoint(step, value, value - half, value + half)


def _gaps(metrics: RunMetrics, series: Series) -> set[int]:
    """Steps between the first and the last of a metric at which it is missing or no number."""
    broken = {step for name in series.metric.split(" + ") for step in metrics.broken.get(name, ())}
    return {step for step in {*metrics.missing, *broken} if series.first_step <= step <= series.last_step}


def _half_widths(run: Followed, series: Mapping[str, Series]) -> dict[int, float]:
    """Half the width of the reward's interval, step by step, where the trainer logs how rewards spread.

    Rollouts of one group are of one task, so a group counts as one observation: at worst that is too wide.
    """
    spread, spec = series.get("reward_std"), run.spec
    if spread is None or spec is None or spec.rollouts_per_example < 1:
        return {}
    groups = max(1, spec.batch_size // spec.rollouts_per_example)
    critical = t_quantile(0.95, groups - 1)
    if not isfinite(critical):
        return {}
    return {step: critical * value / sqrt(groups) for step, value in spread.points}


def _curve_of(finding: Finding, series: Mapping[str, Series]) -> str:
    """The curve that a finding speaks of: that of its metric, else the reward's where it names steps."""
    metric = finding.evidence.get("metric")
    named = next((shown for ours, shown, _ in CURVES if ours in series and series[ours].metric == metric), "")
    return named or ("reward" if finding.evidence.get("steps") and "reward" in series else "")


def _finding(finding: Finding, spec: RunSpec | None, registry_text: str) -> RunFinding:
    evidence = dict(finding.evidence)
    change = evidence.pop("change", {})
    patch = registry_patch(registry_text, spec, change) if spec is not None and change and registry_text else ""
    steps = evidence.get("steps")
    told = f"next: {evidence.get('next', '')}; stop: {evidence.get('stop', '')}"
    return RunFinding(
        rule=finding.rule,
        severity=finding.severity,
        message=finding.message,
        because=told,
        evidence=evidence | ({"change": change} if change else {}),
        fix=finding.fix,
        patch=patch,
        steps=(steps[0], steps[1]) if isinstance(steps, list) and len(steps) == 2 else None,
    )
