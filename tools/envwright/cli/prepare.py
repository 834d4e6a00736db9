"""`envwright prepare`: download the data that environments declare, once, so that the gates can stay offline."""

from __future__ import annotations

import argparse
import json
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from envwright import exit_codes
from envwright.builds.preparation import PreparationFailed, prepare
from envwright.builds.prepared_home import prepared_home
from envwright.cli import arguments
from envwright.cli.selection import Choice, chosen_environments
from envwright.declarations.document import parse_document
from envwright.declarations.preparation import (
    Preparation,
    ProposedPreparation,
    preparation_lines,
    proposed_preparation,
)
from envwright.declarations.problem import DeclarationError
from envwright.declarations.registry import EnvironmentEntry, registry_of
from envwright.declarations.tool_source import REGISTRY_FILE
from envwright.declarations.yaml_edits import NoPlace, with_lines
from envwright.facts.observed import Failure
from envwright.files.atomic_write import write_whole
from envwright.observing.exploration import explored
from envwright.reports.printing import print_message, print_text
from envwright.rules.engine import Verdict
from envwright.rules.verdict import worst
from envwright.system.subprocesses import ProgramFailed, terminated_like_interrupted
from envwright.system.workspace import Workspace
from envwright.text.plain_data import seconds_text, size_text
from envwright.text.visible_text import on_one_line, visible

EXAMPLES = """examples:
  envwright prepare                         download the data under prepare: in registry.yaml, for all environments
  envwright prepare gsm8k                   for one; if it declares nothing, write the lines that it needs
  envwright prepare --declared --changed    what those declare that a change touches

it needs the network and sees no key; the result is kept in ENVWRIGHT_CACHE_DIR, by default ~/.cache/envwright, until
the declaration, the lock or the code that the command runs changes; validate is offline and reads it
exit codes: 0 prepared, 1 a declaration is wrong, 3 the network is missing, 4 this machine is in the way
"""


@dataclass(frozen=True)
class PreparedEnvironment:
    """The result of preparing one environment."""

    name: str
    verdict: Verdict
    message: str
    fix: str = ""
    bytes: int = 0
    declaration: str = ""
    """The lines that declare its data, if it declared nothing and downloads some."""
    output: str = ""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    command.add_argument(
        "--declared", action="store_true", help="skip environments that declare nothing under prepare:"
    )
    arguments.printed(command)


def run(options: argparse.Namespace) -> int:
    root = options.root
    choice = chosen_environments(root, options)
    entries = choice.repository.registry.environments
    named = () if options.declared else options.names
    names = [name for name in choice.names if entries[name].prepare.needed or name in named]
    stop, results = threading.Event(), []
    with terminated_like_interrupted(), Workspace(root).used():
        try:
            for name in names:
                result = _prepared(choice, name, root, stop)
                results.append(result)
                if options.format == "text":
                    _show(result)
        except KeyboardInterrupt:
            stop.set()
            raise
    if options.format == "json":
        print_text(json.dumps({"environments": [asdict(result) for result in results]}, indent=2) + "\n")
    elif not names:
        print("nothing to prepare: no environment declares `prepare:`")
    return exit_codes.OF_VERDICT[worst(result.verdict for result in results)]


def _prepared(choice: Choice, name: str, root: Path, stop: threading.Event) -> PreparedEnvironment:
    entry, package = choice.repository.registry.environments[name], choice.repository.packages[name]
    workspace, started = Workspace(root), time.monotonic()
    if not entry.prepare.needed:
        return _explored(choice, name, workspace, stop)
    known = prepared_home(entry, package)
    if known is not None:
        return PreparedEnvironment(name, "pass", f"prepared before, {size_text(known.bytes)}", bytes=known.bytes)
    try:
        made = prepare(entry, package, workspace, stop, print_message)
    except PreparationFailed as error:
        problem = error.problem
        return PreparedEnvironment(name, problem.verdict, problem.message, problem.fix, output=problem.output)
    taken = seconds_text(time.monotonic() - started)
    return PreparedEnvironment(name, "pass", f"prepared, {size_text(made.bytes)} in {taken}", bytes=made.bytes)


def _explored(choice: Choice, name: str, workspace: Workspace, stop: threading.Event) -> PreparedEnvironment:
    """The result for an environment without a declaration: the lines that it needs."""
    entry, package = choice.repository.registry.environments[name], choice.repository.packages[name]
    try:
        found = explored(entry, package, workspace, stop, print_message)
    except ProgramFailed as error:
        return PreparedEnvironment(name, "error", error.failure.message, "See the message.")
    proposal = proposed_preparation(found.wanted)
    if not proposal.preparation.needed and not proposal.others and found.failure is None:
        return PreparedEnvironment(name, "pass", "downloads nothing; there is nothing to declare")
    return _proposal(choice.repository.root, name, proposal, found.failure)


def _proposal(root: Path, name: str, proposal: ProposedPreparation, failure: Failure | None) -> PreparedEnvironment:
    lines = "\n".join(preparation_lines(proposal.preparation, indent="    ")) if proposal.preparation.needed else ""
    broken = f"; it did not load: {failure.type}: {on_one_line(failure.message)[:300]}" if failure else ""
    again = f"run `envwright prepare {name}` once more"
    if (failure is not None and failure.kind == "network") or (lines and not proposal.is_complete):
        fix = f"Check the network, HTTPS_PROXY and HF_ENDPOINT, then {again}."
        message = f"declares no data, and what it downloads could not be reached{broken}"
        return PreparedEnvironment(name, "inconclusive", message, fix, declaration=lines)
    if lines:
        message = f"declared no data and downloads some{broken}"
        where = f"below {name} in {REGISTRY_FILE}"
        done = f"These lines were written {where}: {again}."
        fix = (
            done if write_declaration(root, name, proposal.preparation) else f"Paste these lines {where}, and {again}."
        )
        return PreparedEnvironment(name, "pass", message, fix, declaration=lines)
    if proposal.others:
        message = f"loading it downloads what cannot be declared: {', '.join(proposal.others[:5])}{broken}"
        fix = "Write a command of the package that downloads what it needs into its home, and declare it as `command`."
        return PreparedEnvironment(name, "fail", message, fix)
    return PreparedEnvironment(name, "fail", f"downloads nothing{broken}", f"envwright validate {name}")


def write_declaration(root: Path, name: str, preparation: Preparation) -> bool:
    """Write a declaration into the registry; returns whether that was possible without changing anything else."""
    path = root / REGISTRY_FILE
    try:
        before = path.read_bytes().decode()  # with its line ends
        text = with_lines(before, ["environments", name], preparation_lines(preparation))
        known, changed = map(_entries, (before, text))
        if changed != {**known, name: replace(known[name], prepare=preparation)}:
            return False
        write_whole(path, text)
    except (NoPlace, DeclarationError, OSError):
        return False
    return True


def _entries(text: str) -> dict[str, EnvironmentEntry]:
    """The environments that a registry declares, wherever their lines are. Raises `DeclarationError`."""
    entries = registry_of(parse_document(text, REGISTRY_FILE)).environments
    return {name: replace(entry, line=None) for name, entry in entries.items()}


def _show(result: PreparedEnvironment) -> None:
    """A pass is one line; anything else is one finding with its next step."""
    verdict = "" if result.verdict == "pass" else f"{result.verdict}: "
    lines = [f"{result.name}: {verdict}{result.message}"]
    lines += [f"  │ {line}" for line in result.output.splitlines()[-12:]]
    lines += [f"  fix  {result.fix}"] if result.fix else []
    lines += [result.declaration] if result.declaration else []
    print_text("".join(f"{visible(line)}\n" for line in lines))
