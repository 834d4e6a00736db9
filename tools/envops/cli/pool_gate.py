"""`envops distribution NAME --endpoint E --pool N`: the gate on an evaluation by verifiers' own pool of servers."""

from __future__ import annotations

import argparse
import threading

from envops import exit_codes
from envops.cli.results_gate import run as judge_results
from envops.models.model_evaluation import MOST_TASKS_ELSEWHERE
from envops.models.model_run import RunRefused, asked_of, chosen, relay_to, say, spent
from envops.models.pool import evaluate_in_pool
from envops.repository.workspace import Workspace
from envops.system.subprocesses import ProgramFailed
from envops.system.termination import terminated_like_interrupted


def run(options: argparse.Namespace) -> int:
    """Evaluate, import what came of it, judge it, and return the exit code."""
    root = options.root.absolute()
    stop = threading.Event()
    try:
        repository, names = chosen(options)
        if len(names) != 1:
            raise RunRefused("--pool belongs to one environment")
        entry, package = repository.registry.environments[names[0]], repository.packages[names[0]]
        gate = entry.gates.distribution
        with terminated_like_interrupted(), relay_to(root, options) as relay:
            asked = asked_of(options, relay.endpoint, gate.tasks, gate.group_size, MOST_TASKS_ELSEWHERE)
            folder = (options.reports or root / "reports") / "rollouts" / f"{entry.name}--{relay.endpoint.name}--pool"
            try:
                evaluate_in_pool(
                    entry,
                    package,
                    Workspace(root),
                    relay,
                    asked,
                    options.pool,
                    folder,
                    stop,
                    allow_network=options.allow_network,
                )
            finally:
                say(spent(relay.spending, relay.endpoint))
    except RunRefused as error:
        say(f"{error}")
        return error.code
    except ProgramFailed as error:
        say(f"verifiers' own command failed:\n{error.failure.message}")
        return exit_codes.ERROR
    say(f"every rollout is in {folder}")
    options.results = folder
    return judge_results(options)
