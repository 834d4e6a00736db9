"""`envwright shards`: environments divided among machines, for people, GitHub Actions, Slurm or Kubernetes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import Choice, chosen_environments, loads
from envwright.exit_codes import CommandError
from envwright.observing.scheduling import (
    MOST_SHARDS,
    Load,
    Shard,
    ShardTask,
    divided,
    kubernetes_job,
    slurm_script,
    worthwhile_count,
)
from envwright.system.workspace import Workspace
from envwright.text.plain_data import counted

EXAMPLES = """examples:
  envwright shards                                        how the environments would be divided
  envwright shards --changed --max 20 --format github     a matrix for GitHub Actions; json is the same
  envwright shards --format slurm                         an array script for sbatch
  envwright shards --format k8s --image IMAGE --claim CLAIM

each entry of the matrix has index, total, names and runs (envwright validate NAMES --runs RUNS), seconds (expected);
scripts write a report for each shard below reports/shards, which `envwright report merge` joins; for k8s the volume of
CLAIM is the checkout, and variables come from a config map `envwright`;
changed runs and runs on environments of several entries have an entry of their own; an empty matrix means that nothing
is to be proved
"""

RUNS_SECONDS = 5.0
"""Seconds for judging declared runs: no environment is observed for it."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    command.add_argument(
        "--max",
        type=arguments.positive,
        default=MOST_SHARDS,
        metavar="N",
        help=f"maximum number of machines (default and limit: {MOST_SHARDS})",
    )
    arguments.printed(command, "github", "slurm", "k8s")
    command.add_argument("--image", metavar="IMAGE", help="k8s: the container image, which has the tool")
    command.add_argument("--claim", metavar="NAME", help="k8s: the volume claim that holds the checkout")


def run(options: argparse.Namespace) -> int:
    if options.format == "k8s" and not (options.image and options.claim):
        raise CommandError("--format k8s needs --image IMAGE and --claim NAME: where the tool and the checkout are")
    root = options.root
    choice = chosen_environments(root, options, set_apart=True)
    if choice.note:
        print(choice.note, file=sys.stderr)
    tasks = _tasks(choice, loads(choice, Workspace(root)), min(options.max, MOST_SHARDS))
    if options.format in ("json", "github"):
        print(json.dumps({"include": [_entry(task, len(tasks)) for task in tasks]}))
    elif options.format == "text":
        runs = sum(len(task.runs) for task in tasks)
        whole = counted(len(choice.names), "environment") + (f" and {counted(runs, 'run')}" if runs else "")
        print(f"{whole} on {counted(len(tasks), 'machine')}")
        for task in tasks:
            held = [*task.names, *([f"runs: {' '.join(task.runs)}"] if task.runs else [])]
            print(f"{task.index}/{len(tasks)}  about {round(task.seconds)} s  {' '.join(held)}")
    else:
        _print_script(options, tasks)
    return exit_codes.PASS


def _tasks(choice: Choice, work: Sequence[Load], most: int) -> list[ShardTask]:
    """At most that many tasks; runs that no shard judges take a machine of their own, unless there is one alone."""
    shards = divided(work, worthwhile_count(work, most))
    runs = _runs_apart(choice, shards)
    if runs and len(shards) == most > 1:
        shards = divided(work, most - 1)
        runs = _runs_apart(choice, shards)
    if most == 1 and shards:
        return [ShardTask(1, shards[0].names, runs, shards[0].seconds)]
    tasks = [ShardTask(index, shard.names, (), shard.seconds) for index, shard in enumerate(shards, start=1)]
    return [*tasks, ShardTask(len(tasks) + 1, (), runs, RUNS_SECONDS)] if runs else tasks


def _entry(task: ShardTask, total: int) -> dict[str, object]:
    names, runs = " ".join(task.names), " ".join(task.runs)
    return {"index": task.index, "total": total, "names": names, "runs": runs, "seconds": round(task.seconds)}


def _print_script(options: argparse.Namespace, tasks: Sequence[ShardTask]) -> None:
    command = "envwright validate"
    if not tasks:
        print("there is nothing to prove, so no script was written", file=sys.stderr)
    elif options.format == "slurm":
        print(slurm_script(tasks, command), end="")
    else:
        print(kubernetes_job(tasks, command, options.image, options.claim), end="")


def _runs_apart(choice: Choice, shards: Sequence[Shard]) -> tuple[str, ...]:
    """The runs that changed, and those on chosen environments that no shard judges, since none holds all of theirs."""
    from envwright.training.declared_runs import runs_of_packages

    registry, chosen = choice.repository.registry, set(choice.names)
    judged = {name for shard in shards for name in runs_of_packages(registry, shard.names)}
    apart = {name for name, spec in registry.specs.items() if chosen & set(spec.environment_names)} - judged
    return tuple(name for name in registry.specs if name in apart or name in choice.runs)
