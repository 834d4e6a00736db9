"""One training run as reports show it: what was trained, how its numbers went, what is wrong and what to change.

    write_run(RunReport(name="reverse-text-4b", backend="prime", model="…", status="running", curves=(…,)), folder)

Whoever follows a run writes `reports/runs/NAME.json`, and writes it anew whenever it knows more. The HTML report and
the site render what lies there; they compute nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from envops.facts.observed import adapter
from envops.text.plain_data import plain_data

RUNS_FOLDER = "runs"
"""Inside the folder of reports."""
FORMAT_VERSION = 1

RunStatus = Literal["planned", "queued", "running", "finished", "failed", "stopped", "unknown"]
RunSeverity = Literal["error", "warning", "advice"]


@dataclass(frozen=True)
class CurvePoint:
    """A number at one step. A value that is missing is `None`, never 0.0."""

    step: int
    value: float | None
    low: float | None = None
    high: float | None = None
    """The bounds of the interval, where there is one."""


@dataclass(frozen=True)
class Curve:
    """One metric over the steps of a run, in the order of its steps."""

    metric: str
    """As people should read it: `reward`, `eval reward, gsm8k`, `tokens per reply`."""
    points: tuple[CurvePoint, ...]
    unit: str = ""
    about: str = ""
    """What it says, in a sentence; where the name says it all, nothing."""


@dataclass(frozen=True)
class RunFinding:
    """Something about a run that its owner should know, with what to do about it."""

    rule: str
    """The signature's id, or a short name."""
    severity: RunSeverity
    message: str
    because: str = ""
    """Which numbers say so, in a sentence."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: str = ""
    patch: str = ""
    """The change of the registry or of a config that mends it, as a diff or a snippet."""
    steps: tuple[int, int] | None = None
    """First and last step that it speaks of."""
    curve: str = ""
    """The metric of the curve on which it is to be seen, where there is one."""


@dataclass(frozen=True)
class RewardBin:
    """So many rollouts earned from `low` to `high`."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class RunReport:
    """One run, as far as it is known."""

    name: str
    """The registry's name of it."""
    backend: str
    model: str
    environments: tuple[str, ...] = ()
    status: RunStatus = "unknown"
    identity: str = ""
    """The digest of environment versions and config that makes a submission idempotent."""
    url: str = ""
    started: str = ""
    finished: str = ""
    """Times in ISO 8601 with their zone, or nothing."""
    steps_done: int | None = None
    steps_planned: int | None = None
    cost: float | None = None
    """Dollars, where somebody knows."""
    curves: tuple[Curve, ...] = ()
    findings: tuple[RunFinding, ...] = ()
    """Weightiest first."""
    rewards: tuple[RewardBin, ...] = ()
    """How the rewards of one step spread, where somebody tells."""
    rewards_step: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """The settings worth seeing beside the curves."""
    notes: tuple[str, ...] = ()
    simulated: bool = False
    """No model was trained: a stand-in made these numbers, which every page says."""
    version: int = FORMAT_VERSION


def run_file(name: str) -> str:
    """The file's name for a run's name, whatever that holds."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('.-') or 'run'}.json"


def write_run(run: RunReport, reports: Path) -> Path:
    """Write the run below the folder of reports; a reader sees a whole file or the one before."""
    from envops.files.atomic_write import write_whole

    folder = reports / RUNS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / run_file(run.name)
    write_whole(path, json.dumps(plain_data(asdict(run)), indent=1, ensure_ascii=True, allow_nan=False) + "\n")
    return path


def read_run(path: Path) -> RunReport:
    """A run as `write_run` wrote it. Raises `ValueError` with the file's name when it is something else."""
    try:
        run = adapter(RunReport).validate_python(json.loads(path.read_bytes()), strict=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no report of a run: {error}") from None
    assert isinstance(run, RunReport)
    if run.version != FORMAT_VERSION:
        raise ValueError(f"{path} has version {run.version}, this tool reads {FORMAT_VERSION}")
    return run


def read_runs(reports: Path) -> tuple[list[RunReport], list[str]]:
    """Every run below the folder of reports by name, and what is wrong with files that are none."""
    runs: list[RunReport] = []
    problems: list[str] = []
    for path in sorted((reports / RUNS_FOLDER).glob("*.json")):
        try:
            runs.append(read_run(path))
        except (ValueError, OSError) as error:
            problems.append(str(error))
    return runs, problems
