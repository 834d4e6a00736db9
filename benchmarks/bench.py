"""What the project promises, measured on this machine: `nox -s bench`.

Writes benchmarks/results.json and benchmarks/results.md. Nothing here is a test: numbers are
printed beside what was promised, and a miss is a miss.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
ENVOPS = [sys.executable, "-m", "envops"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT["PYTHONPATH"] = str(ROOT / "tools")

REWARDS_STAGES = ("tasks", "rewards", "validation", "tests", "invariants", "search", "mutation")


@dataclass(frozen=True)
class Measurement:
    """One promise and what was measured; `unit` is s, MB or a ratio."""

    name: str
    value: float
    promised: float
    unit: str
    higher_is_better: bool = False
    note: str = ""

    @property
    def kept(self) -> bool:
        return self.value >= self.promised if self.higher_is_better else self.value <= self.promised


def main() -> int:
    """Measure everything and write it down; exit code 1 where a promise was not kept."""
    steps: Sequence[Callable[[], list[Measurement]]] = (
        help_time,
        cached_validate,
        one_environment,
        throughput,
        evaluation,
        judging,
        releasing,
        reporting,
        calibration,
    )
    measured = []
    for step in steps:
        print(f"{step.__name__.replace('_', ' ')} …", file=sys.stderr)
        measured += step()
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    folder = ROOT / "benchmarks"
    rows = [{**asdict(one), "kept": one.kept} for one in measured]
    (folder / "results.json").write_text(json.dumps({"machine": machine, "measured": rows}, indent=2) + "\n")
    table = render(measured, machine)
    (folder / "results.md").write_text(table)
    print(table)
    return 0 if all(one.kept for one in measured) else 1


def render(measured: Sequence[Measurement], machine: dict[str, object]) -> str:
    """The table that people read."""
    lines = [
        "# What was measured",
        "",
        f"{machine['cores']} cores, Python {machine['python']}. Written by `nox -s bench`.",
        "",
        "| what | measured | promised | kept | note |",
        "|---|---|---|---|---|",
    ]
    for one in measured:
        sign = "≥" if one.higher_is_better else "≤"
        promised = f"{sign} {one.promised:g} {one.unit}"
        kept = "yes" if one.kept else "**no**"
        lines.append(f"| {one.name} | {one.value:.3g} {one.unit} | {promised} | {kept} | {one.note} |")
    return "\n".join(lines) + "\n"


def envops(*arguments: str) -> tuple[float, float, str]:
    """Run a command; its wall time in seconds, the host's own peak memory in MB, what it printed."""
    with tempfile.TemporaryFile("w+") as printed:
        started = time.perf_counter()
        command = [*ENVOPS, *arguments]
        process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=printed, stderr=subprocess.DEVNULL)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.005)
        seconds = time.perf_counter() - started
        printed.seek(0)
        output = printed.read()
    if process.returncode not in (0, 1):
        raise SystemExit(f"envops {' '.join(arguments)} ended with {process.returncode}:\n{output}")
    return seconds, peak, output


def resident(pid: int) -> float:
    """Memory of one process without its children, in MB: what the system counts for them is their sum's peak."""
    try:
        return float(psutil.Process(pid).memory_info().rss) / 2**20
    except psutil.Error:
        return 0.0


def help_time() -> list[Measurement]:
    """How long the command line takes to say anything."""
    seconds = statistics.median(envops("--help")[0] for _ in range(5))
    return [Measurement("`envops --help`", seconds, 0.3, "s", note="median of 5")]


def cached_validate() -> list[Measurement]:
    """All environments, nothing changed."""
    envops("validate")
    seconds, memory, output = envops("validate")
    assert "all from the cache" in output
    return [
        Measurement("`validate`, all environments, nothing changed", seconds, 3.0, "s"),
        Measurement("host memory of that run", memory, 150.0, "MB"),
    ]


def one_environment() -> list[Measurement]:
    """Each environment alone, venv ready, facts not cached: everything but the import of verifiers."""
    measured = []
    for file in sorted((ROOT / "environments").glob("*/pyproject.toml")):
        name = file.parent.name.replace("_", "-")
        seconds, memory, output = envops("validate", name, "--no-cache", "--format", "json")
        stages = json.loads(output)["environments"][0]["stage_seconds"]
        after = seconds - stages["load"]
        note = f"{seconds:.1f} s in all, host {memory:.0f} MB"
        measured.append(Measurement(f"`validate -- {name}` after its import", after, 6.0, "s", note=note))
        measured.append(Measurement(f"host memory, {name}", memory, 150.0, "MB"))
        gate = sum(stages[stage] for stage in REWARDS_STAGES)
        measured.append(Measurement(f"rewards gate, {name}, after import", gate, 20.0, "s"))
    return measured


def throughput() -> list[Measurement]:
    """The worker's scoring beside verifiers' own in a plain loop, in the same process."""
    measured = []
    for name in ("word-problems", "date-arithmetic"):
        ratio, plain, ours = scoring_ratio(name)
        note = f"{ours:.0f} replies per second, plain loop {plain:.0f}"
        label = f"scoring throughput, {name}, of a plain loop"
        measured.append(Measurement(label, ratio, 0.8, "×", higher_is_better=True, note=note))
    return measured


def evaluation() -> list[Measurement]:
    """Our evaluation beside verifiers' own command: same environment, endpoint and concurrency."""
    import evaluation as side_by_side  # beside this file

    measured = []
    for generation, name in side_by_side.ENVIRONMENTS.items():
        one = side_by_side.beside(generation)
        label = f"evaluation, {generation}, {name}"
        measured.append(Measurement(f"{label}, wall time of verifiers' own", one.time_ratio, 1.1, "×", note=one.note))
        rate = 1 / one.time_ratio
        measured.append(Measurement(f"{label}, rollouts per second of it", rate, 0.9, "×", higher_is_better=True))
    return measured


def scoring_ratio(name: str) -> tuple[float, float, float]:
    """The ratio, and replies per second of a plain loop and of the worker, in one process."""
    from envops.declare.repository import Repository
    from envops.observe.observation import worker_settings
    from envops.observe.process import Confinement, worker_environment
    from envops.observe.starting import WORKER_FOLDER
    from envops.observe.venv import venv_for
    from envops.observe.wheel import built_wheel
    from envops.observe.workspace import Workspace

    repository = Repository.load(ROOT, [name])
    entry, package = repository.registry.environments[name], repository.packages[name]
    workspace, stop = Workspace(ROOT), threading.Event()
    venv = venv_for(package.folder / "requirements.lock", workspace, stop)
    built = built_wheel(package, workspace, stop)
    settings = worker_settings(entry, package, built.overlay, allow_network=False)
    with workspace.scratch() as scratch:
        command = [venv.python, "-s", "-P", ROOT / "benchmarks/scoring.py", WORKER_FOLDER, json.dumps(settings)]
        environment = worker_environment(venv, built.overlay, scratch, Confinement({}))
        output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    rates = json.loads(output.splitlines()[-1])
    return rates["worker"] / rates["plain"], rates["plain"], rates["worker"]


def judging() -> list[Measurement]:
    """The distribution gate on many rollouts, in a process of its own."""
    command = [sys.executable, ROOT / "benchmarks/judging.py", "10000"]
    output = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout
    said = json.loads(output)
    return [
        Measurement("10,000 rollouts judged", said["seconds"], 2.0, "s"),
        Measurement("memory of that process", said["megabytes"], 300.0, "MB"),
    ]


def releasing() -> list[Measurement]:
    """A plan of a thousand environments beside a Hub on loopback."""
    command = [sys.executable, ROOT / "benchmarks/releasing.py", "1000"]
    said = json.loads(subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout)
    note = f"{said['cpu_seconds']:.1f} s of processor time"
    return [
        Measurement("`plan`, 1,000 environments, a Hub on loopback", said["seconds"], 10.0, "s", note=note),
        Measurement("reads of the Hub for each of them", said["reads_per_environment"], 1.0, ""),
        Measurement("`plan --changed`, nothing changed", said["changed_seconds"], 2.0, "s"),
    ]


def reporting() -> list[Measurement]:
    """The HTML report of a big monorepo: measured, written, and opened in a real browser."""
    command = [sys.executable, ROOT / "benchmarks/pages.py"]
    said = json.loads(subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout)
    what = f"report of {said['environments']} environments and {said['rollouts']:,} rollouts"
    note = f"of one core; of it {said['measuring']:.1f} s for profiles and distributions, the rest for five files"
    return [
        Measurement(f"{what}, built", said["seconds"], 5.0, "s", note=note),
        Measurement("memory of building that report", said["megabytes"], 300.0, "MB"),
        Measurement("size of that page", said["page_megabytes"], 5.0, "MB"),
        Measurement("that page interactive in headless Chromium", said["interactive"], 2.0, "s", note=said["opened"]),
    ]


def calibration() -> list[Measurement]:
    """A/A pairs and the power of drift; the tables are in calibration.md."""
    command = [sys.executable, ROOT / "benchmarks/calibration.py"]
    subprocess.run(command, env=ENVIRONMENT, stdout=sys.stderr, check=False)
    said = json.loads((ROOT / "benchmarks/calibration.json").read_text())
    worst = max(said["calibrations"], key=lambda one: one["pass_fail"])
    note = f"[calibration.md](calibration.md), {said['pairs']:,} pairs each; most with {worst['policy']}"
    return [
        Measurement("A/A pairs that flip between PASS and FAIL, worst policy", worst["pass_fail"], 0.05, "", note=note)
    ]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
