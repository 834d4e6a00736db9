"""`envwright endpoint NAME`: the scripted policies of one environment, served until Ctrl-C."""

from __future__ import annotations

import argparse
import sys

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import named_environment
from envwright.exit_codes import CommandError
from envwright.observing.job import StageFailed
from envwright.observing.opened_environment import opened_environment
from envwright.system.subprocesses import Interrupted, ProgramFailed, stopped_by_signals
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright endpoint gsm8k                                  then: vf-eval gsm8k -b URL -m oracle
  envwright endpoint gsm8k --port 8000 --fault 429:share=0.1,retry-after=2
  envwright endpoint gsm8k --fault slow:per-token=0.02 --fault cut-body:every=10

every policy is a model name; blend takes weights: blend:oracle=3,near-miss=1
faults: a status (429, 500, 503), slow, hang, cut-before-headers, cut-after-headers, cut-body,
malformed-json, empty-body, html, no-choices; when: share, every, first, at, seed
"""

MOST_TASKS = 20_000
FOR_EVER = 10 * 365 * 86_400.0


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.environment(command)
    arguments.environment_arguments(command, "arguments of the environment on top of the registry's `args`, in JSON")
    arguments.port(command)
    command.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help="a fault: 429:share=0.2,retry-after=1, cut-body:every=3, slow:seconds=0.5, malformed-json:first=2",
    )
    arguments.network(command, "the environment", "it loads")


def run(options: argparse.Namespace) -> int:
    entry, package = named_environment(options)
    stop = stopped_by_signals()
    try:
        workspace = Workspace(options.root)
        with opened_environment(entry, package, workspace, options.allow_network, stop) as opened:
            request = opened.worker.request(
                "endpoint", FOR_EVER, tasks=MOST_TASKS, faults=options.fault, port=options.port
            )
            for kind, value in request:
                if kind == "endpoint":
                    _print_usage(entry.name, package.module, package.generation, value)
    except Interrupted:
        print("stopped", file=sys.stderr)
        return exit_codes.PASS
    except (StageFailed, ProgramFailed) as error:
        message = f"{error.failure.type}: {error.failure.message}"
        wrong = error.failure.type in ("EndpointFaultError", "OSError")  # wrong options, or a port that is taken
        code = exit_codes.USAGE if wrong else exit_codes.FAIL if error.failure.kind == "raised" else exit_codes.ERROR
        raise CommandError(f"{entry.name} could not be served: {message}", code) from None
    return exit_codes.ERROR


def _print_usage(name: str, module: str, generation: str | None, served: dict[str, object]) -> None:
    url, policies = served["url"], served["policies"]
    assert isinstance(policies, list)
    print(f"{name}: {served['tasks']} tasks at {url}", file=sys.stderr)
    print(f"models: {', '.join(policies)}, blend:oracle=3,near-miss=1", file=sys.stderr)
    key = "export ENVWRIGHT_ENDPOINT_KEY=any"
    if generation == "v0":
        example = f"{key}; vf-eval {module} -m oracle -b {url} -k ENVWRIGHT_ENDPOINT_KEY -d"
    else:
        example = (
            f"{key}; vf-eval {module} -m oracle --client.base-url {url} --client.api-key-var ENVWRIGHT_ENDPOINT_KEY"
        )
    print(f"try: {example}\nCtrl-C ends it.", file=sys.stderr, flush=True)
    print(url, flush=True)
