"""The gates, and what asks an environment's rewards."""

from __future__ import annotations

import argparse
from pathlib import Path

from envops.cli.arguments import Commands, command, model, network, positive, root, selection, validation

GATE_COMMANDS = {
    "validate": "prove environments: all gates",
    "schema": "one gate: declaration, package, wheel, loading, data",
    "rewards": "one gate: what the reward functions say to right and wrong replies",
    "smoke": "one gate: a real evaluation against scripted policies",
    "distribution": "one gate: whether the rewards leave something to learn",
}
SELECTION_EXAMPLES = """examples:
  envops {name}                        every environment of the registry
  envops {name} reverse-text gsm8k     these two
  envops {name} --changed              what differs from the main branch
  envops {name} --changed HEAD~1       what differs from a commit
  envops {name} --format json --quiet  for machines
"""
REWARDS_EXAMPLES = """  envops rewards gsm8k --against main           which rewards changed since a revision
  envops rewards gsm8k --against ../old/gsm8k   whether a port pays what its original pays
  envops rewards gsm8k --explain RWD010         a rule, and what it found here
  envops rewards gsm8k --reply "#### 42" --task 3
"""
ENDPOINT_EXAMPLES = """examples:
  envops endpoint gsm8k                                  then: vf-eval gsm8k -b URL -m oracle
  envops endpoint gsm8k --port 8000 --fault 429:share=0.1,retry-after=2
  envops endpoint gsm8k --fault slow:per-token=0.02 --fault cut-body:every=10

every policy is a model name; blend takes weights: blend:oracle=3,near-miss=1
faults: a status (429, 500, 503), slow, hang, cut-before-headers, cut-after-headers, cut-body,
malformed-json, empty-body, html, no-choices; when: share, every, first, at, seed
"""
TEST_EXAMPLES = """examples:
  envops test reverse-text                      tests/test_*.py and tests/cases.yaml
  envops test reverse-text -k empty -x          pytest's own flags
  envops test reverse-text tests/cases.yaml -v
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    _gates(commands)
    _endpoint(commands)
    _test(commands)


def _gates(commands: Commands[argparse.ArgumentParser]) -> None:
    for name, summary in GATE_COMMANDS.items():
        examples = SELECTION_EXAMPLES.format(name=name) + (REWARDS_EXAMPLES if name == "rewards" else "")
        gate = command(commands, name, summary, "rewards" if name == "rewards" else "validate", examples)
        selection(gate)
        validation(gate)
        if name == "rewards":
            _questions(gate)
        if name in ("smoke", "distribution"):
            model(gate)
            gate.add_argument(
                "--harness",
                metavar="NAME",
                help="v1: let another harness play: null, bash, or one of a package in the lock; those that fetch "
                "themselves want --allow-network the first time (default: one in the worker that needs no network)",
            )
        if name == "distribution":
            gate.add_argument(
                "--pool",
                type=positive,
                metavar="N",
                help="with --endpoint: let verifiers' own command evaluate, on N servers of the environment",
            )
            gate.add_argument(
                "--hosted",
                action="store_true",
                help="with --endpoint of Prime Inference: let the platform evaluate the published environment",
            )
            gate.add_argument(
                "--results",
                type=Path,
                metavar="FILE",
                help="judge rollouts made elsewhere: our JSONL, v0's results.jsonl, v1's traces.jsonl",
            )


def _endpoint(commands: Commands[argparse.ArgumentParser]) -> None:
    endpoint = command(
        commands, "endpoint", "serve an environment's scripted policies until Ctrl-C", "endpoint", ENDPOINT_EXAMPLES
    )
    root(endpoint)
    endpoint.add_argument("name", metavar="NAME", help="the environment")
    endpoint.add_argument("--port", type=int, default=0, metavar="P", help="port on loopback (default: a free one)")
    endpoint.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help="what goes wrong: 429:share=0.2,retry-after=1, cut-body:every=3, slow:seconds=0.5, malformed-json:first=2",
    )
    network(endpoint, "the environment", "it loads")


def _test(commands: Commands[argparse.ArgumentParser]) -> None:
    test = command(commands, "test", "an environment's own tests and cases, by pytest", "test", TEST_EXAMPLES)
    root(test)
    test.add_argument("name", metavar="NAME", help="the environment")
    test.add_argument(
        "pytest", nargs=argparse.REMAINDER, metavar="PYTEST ARGUMENTS", help="given to pytest as they are"
    )


def _questions(command: argparse.ArgumentParser) -> None:
    """What `envops rewards` can be asked instead of the gate."""
    questions = command.add_argument_group("questions", "one at a time, instead of the gate")
    questions.add_argument(
        "--against",
        metavar="PATH_OR_REV",
        help="score the same replies with the code of a revision of git or of another package's folder",
    )
    questions.add_argument("--explain", metavar="RULE", help="what a rule checks, and what it found here")
    questions.add_argument(
        "--reply",
        action="append",
        metavar="TEXT",
        help="score a reply, function by function; - reads it; several are the turns of a conversation",
    )
    questions.add_argument("--task", type=int, metavar="INDEX", help="the task of --reply (default: 0)")
