"""`envops train hub OWNER/NAME --model M`: a run on environments of the Hub, without registry and gates."""

from __future__ import annotations

import argparse
import re
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envops import exit_codes
from envops.cli import arguments
from envops.cli.train import run_result
from envops.files.atomic_write import write_whole
from envops.hub.access import HubAccess, HubUnavailable, Prime, the_platform
from envops.hub.state import read_hub
from envops.reports.declared_runs import render_runs
from envops.repository.git import git
from envops.repository.registry import ExternalEntry, Registry
from envops.repository.run import run_spec
from envops.repository.workspace import Workspace
from envops.system.subprocesses import Interrupted
from envops.training.declared_runs import DeclaredRun, declared_runs
from envops.training.submit import Platform, RunIdentity, identity_of, submit
from envops.training.trainers import SUBMITTED

EXAMPLES = """examples:
  envops train hub primeintellect/gsm8k --model Qwen/Qwen3-4B-Instruct-2507
  envops train hub primeintellect/gsm8k@0.1.2 acme/wordle --model Qwen/Qwen3-4B-Instruct-2507 --dry-run
"""
ADDRESS = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*/[A-Za-z0-9]+([._-][A-Za-z0-9]+)*(@[0-9][A-Za-z0-9.+!_-]*)?")
BATCH, GROUP = 128, 8


@dataclass(frozen=True)
class HubRun:
    """The request, compiled."""

    run: DeclaredRun
    identity: RunIdentity
    file: Path
    text: str


class Unusable(Exception):
    """The command line cannot be run; the message names what to write."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "environments", nargs="+", metavar="OWNER/NAME", help="train on it; several are a mix; @VERSION pins one"
    )
    command.add_argument("--model", required=True, metavar="M", help="the model to begin with")
    command.add_argument("--max-steps", type=int, default=100, metavar="N", help="training steps (default: 100)")
    command.add_argument("--dry-run", action="store_true", help="show the configuration without submitting it")
    command.add_argument("--yes", action="store_true", help="submit without confirmation")
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="where the configuration goes (default: configs/rl/)"
    )
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    """Compile, show, confirm, submit; the exit code."""
    try:
        _check(options)
        prime, access = the_platform()
        hub_run = _compiled(options, prime, access)
        write_whole(hub_run.file, hub_run.text)
        print(f"{hub_run.file}:\n\n{hub_run.text}")
        print(access.scrubber.text(render_runs([run_result(hub_run.run)], quiet=True)), end="")
        if hub_run.run.fails:
            return exit_codes.FAIL
        if options.dry_run or not _approved(options, hub_run):
            return exit_codes.PASS
        platform = Platform(prime, access, Workspace(options.root.absolute()).base, threading.Event())
        said = submit(hub_run.run, hub_run.identity, platform)
    except (Unusable, HubUnavailable) as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    except Interrupted:
        return exit_codes.INTERRUPTED
    print(access.scrubber.text(str(said)))
    if said.outcome in ("submitted", "already-submitted"):
        return exit_codes.PASS
    return exit_codes.FAIL if said.outcome == "failed" else exit_codes.ERROR


def _check(options: argparse.Namespace) -> None:
    for address in options.environments:
        if not ADDRESS.fullmatch(address):
            raise Unusable(f"{address}: an environment of the Hub is owner/name, or owner/name@1.2.3")
    if not sys.stdin.isatty() and not options.yes and not options.dry_run:
        raise Unusable(
            "not a terminal, so the submission cannot be confirmed: add --yes to submit, or --dry-run to only show it"
        )


def _compiled(options: argparse.Namespace, prime: Prime, access: HubAccess) -> HubRun:
    external = _external(options.environments, prime, access)
    name = _name(options)
    declared: dict[str, Any] = {
        "backend": SUBMITTED.limits.name,
        "model": options.model,
        "environments": [{"id": entry.name} for entry in external.values()],
        "max_steps": options.max_steps,
        "batch_size": BATCH,
        "rollouts_per_example": GROUP,
    }
    spec = run_spec(name, declared, {}, "the command line")
    registry = Registry("", {}, external, {name: declared}, {name: spec})
    [compiled] = declared_runs(registry, {}, [spec])
    root = options.root.absolute()
    commit = git(root, "rev-parse", "HEAD").stdout.decode("ascii", "replace").strip()
    identity = identity_of(compiled.request, declared, {}, commit)
    if compiled.compiled is None:
        raise Unusable("; ".join(finding.message for finding in compiled.findings))
    path, text = next(iter(compiled.compiled.files.items()))
    file = options.output or root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    return HubRun(compiled, identity, file, text)


def _external(addresses: list[str], prime: Prime, access: HubAccess) -> dict[str, ExternalEntry]:
    """The environments by name, at the version that was named or at the latest. Raises `Unusable`."""
    plain = [address.partition("@")[0] for address in addresses]
    pinned = [address for address in addresses if "@" in address]
    hub = read_hub(prime, access, plain, threading.Event(), pinned=pinned)
    found: dict[str, ExternalEntry] = {}
    for address in addresses:
        place, _, version = address.partition("@")
        owner, _, name = place.partition("/")
        reading = hub.pinned[address] if version else hub.readings[place]
        there = reading.environment.version if reading.environment else ""
        if reading.standing != "found" or not (version or there):
            raise Unusable(f"{address} was not found on the Hub: {reading.why or 'nothing is published there'}")
        label = name if name not in found else f"{owner}-{name}"
        found[label] = ExternalEntry(label, owner, name, version or there)
    return found


def _name(options: argparse.Namespace) -> str:
    environments = "-".join(address.partition("@")[0].rpartition("/")[2] for address in options.environments)
    text = f"{environments}-{options.model.rpartition('/')[2]}".lower()
    return re.sub(r"[^a-z0-9.]+", "-", text).strip("-.")[:60].strip("-.")


def _approved(options: argparse.Namespace, hub_run: HubRun) -> bool:
    if options.yes:
        return True
    answer = input(f"Submit {hub_run.identity.name}? Hosted GPUs are billed by the hour. [y/N] ")
    return answer.strip().lower() in ("y", "yes")
