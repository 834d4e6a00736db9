"""The command line. Commands are imported when they are called: `--help` waits for nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from envops import __version__, exit_codes

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    if "command" not in options:
        parser().print_help()
        return exit_codes.USAGE
    command = import_module(f"envops.commands.{options.module}")
    code: int = command.run(options)
    return code


def run() -> None:
    """The entry point of the `envops` script."""
    from envops.declare.problem import DeclarationError

    try:
        sys.exit(main())
    except DeclarationError as error:
        print(f"{error}\n\n{len(error.problems)} problem(s); nothing was run.", file=sys.stderr)
        sys.exit(exit_codes.USAGE)
    except KeyboardInterrupt:
        sys.exit(exit_codes.INTERRUPTED)
    except BrokenPipeError:
        sys.exit(exit_codes.ERROR)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="envops", description="Prove, publish and train a monorepo of RL environments.")
    top.add_argument("--version", action="version", version=f"envops {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary in GATE_COMMANDS.items():
        examples = SELECTION_EXAMPLES.format(name=name) + (REWARDS_EXAMPLES if name == "rewards" else "")
        gate = _command(commands, name, summary, "rewards" if name == "rewards" else "validate", examples)
        _selection(gate)
        _validation(gate)
        if name == "rewards":
            _questions(gate)
        if name in ("smoke", "distribution"):
            _model(gate)
        if name == "distribution":
            gate.add_argument(
                "--results",
                type=Path,
                metavar="FILE",
                help="judge rollouts made elsewhere: our JSONL, v0's results.jsonl, v1's traces.jsonl",
            )
    record = _command(
        commands, "record", "evaluate once and keep the rollouts and their baseline", "record", RECORD_EXAMPLES
    )
    _selection(record, changed=False)
    record.add_argument("--quiet", action="store_true", help="no progress")
    record.add_argument(
        "--allow-network", action="store_true", help="let environments reach the network and the Hub while they load"
    )
    _model(record)
    record.add_argument(
        "--policy", metavar="NAME", help="record a scripted policy instead of a model, labelled as such"
    )
    record.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="the baseline's date (default: today)")
    endpoint = _command(
        commands, "endpoint", "serve an environment's scripted policies until Ctrl-C", "endpoint", ENDPOINT_EXAMPLES
    )
    _root(endpoint)
    endpoint.add_argument("name", metavar="NAME", help="the environment")
    endpoint.add_argument("--port", type=int, default=0, metavar="P", help="port on loopback (default: a free one)")
    endpoint.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help="what goes wrong: 429:share=0.2,retry-after=1, cut-body:every=3, slow:seconds=0.5, malformed-json:first=2",
    )
    endpoint.add_argument(
        "--allow-network", action="store_true", help="let the environment reach the network and the Hub while it loads"
    )
    test = _command(commands, "test", "an environment's own tests and cases, by pytest", "test", TEST_EXAMPLES)
    _root(test)
    test.add_argument("name", metavar="NAME", help="the environment")
    test.add_argument(
        "pytest", nargs=argparse.REMAINDER, metavar="PYTEST ARGUMENTS", help="given to pytest as they are"
    )
    lock = _command(commands, "lock", "resolve every environment's requirements.lock anew", "lock", LOCK_EXAMPLES)
    _selection(lock, changed=False)
    explain = _command(commands, "explain", "what a rule checks, why, and how to mend it", "explain", EXPLAIN_EXAMPLES)
    explain.add_argument("rules", nargs="*", metavar="RULE", help="rule ids; all of them in short when none is given")
    docs = _command(commands, "docs", "write what is generated: CODEOWNERS, docs/rules.md", "docs", DOCS_EXAMPLES)
    docs.add_argument("--check", action="store_true", help="write nothing, fail where something is out of date")
    _root(docs)
    return top


REWARDS_EXAMPLES = """  envops rewards gsm8k --against main           which rewards changed since a revision
  envops rewards gsm8k --against ../old/gsm8k   whether a port pays what its original pays
  envops rewards gsm8k --explain RWD012         a rule, and what it found here
  envops rewards gsm8k --reply "#### 42" --task 3
"""
RECORD_EXAMPLES = """examples:
  envops record gsm8k --endpoint qwen3-30b --max-cost 0.50
  envops record gsm8k --endpoint qwen3-30b -n 20 -r 8
  envops record gsm8k --policy blend            scripted, without a key
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
LOCK_EXAMPLES = """examples:
  envops lock                 all environments
  envops lock reverse-text    one
"""
EXPLAIN_EXAMPLES = """examples:
  envops explain RWD001
"""
DOCS_EXAMPLES = """examples:
  envops docs
  envops docs --check    in CI
"""


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str, module: str, examples: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(command=name, module=module)
    return command


def _root(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--root", type=Path, default=Path(), metavar="FOLDER", help="the repository (default: this folder)"
    )


def _selection(command: argparse.ArgumentParser, *, changed: bool = True) -> None:
    command.add_argument("names", nargs="*", metavar="NAME", help="environments (default: all)")
    if changed:
        command.add_argument(
            "--changed",
            nargs="?",
            const="",
            metavar="BASE",
            help="only what differs from where this branch left BASE (default: the main branch)",
        )
    _root(command)


def _validation(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="what goes to stdout")
    command.add_argument("--quiet", action="store_true", help="no progress, and only what decides the verdict")
    command.add_argument("--no-cache", action="store_true", help="observe again even where nothing changed")
    command.add_argument(
        "--allow-network", action="store_true", help="let environments reach the network and the Hub while they load"
    )
    command.add_argument("--jobs", type=_positive, metavar="N", help="environments at the same time (default: cores)")
    command.add_argument(
        "--reports", type=Path, metavar="FOLDER", help="where the reports go (default: reports/ in the repository)"
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


def _model(command: argparse.ArgumentParser) -> None:
    """A real model instead of the scripted policies."""
    model = command.add_argument_group("a real model", "see docs/models.md")
    model.add_argument("--endpoint", metavar="NAME", help="let this model of configs/endpoints.toml speak")
    model.add_argument("-n", "--tasks", type=_positive, metavar="N", help="on how many tasks")
    model.add_argument("-r", "--rollouts", type=_positive, metavar="N", help="how many rollouts on each")
    model.add_argument(
        "--max-cost", type=_cost, metavar="DOLLARS", help="what the run may cost at most (default: 1), or none"
    )


def _cost(text: str) -> float | str:
    if text == "none":
        return text
    dollars = float(text)
    if not 0 <= dollars < float("inf"):
        raise argparse.ArgumentTypeError("must be dollars, or none")
    return dollars


def _date(text: str) -> str:
    from datetime import date

    return date.fromisoformat(text).isoformat()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    run()
