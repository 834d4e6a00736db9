"""`envwright rehearse`: all steps from a merge to published environments and submitted runs, on loopback."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from envwright_emulator.behaviour import UnknownAssumption, behaviour
from envwright_emulator.faults import FaultSyntaxError
from envwright_emulator.rehearsal_copy import rehearsal_copy
from envwright_emulator.server import EmulatedHub, emulator

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.emulator import add_behaviour, registered_owners
from envwright.declarations.registry import load_registry
from envwright.exit_codes import CommandError
from envwright.hub.access import find_prime, install_prime
from envwright.system.workspace import CACHE_DIR, users_folder

EXAMPLES = """examples:
  envwright rehearse                      everything, without a key: prove, plan, release, release again, train
  envwright rehearse reverse-text         one environment
  envwright rehearse reverse-text --fault 'POST /environmentshub/*/versions status code=503'

it works on a copy with its own home folder: neither this repository nor the real Hub is changed
"""

KEY = "rehearsal-key"
EVIDENCE = "reports/validate.json"


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command, changed=False)
    add_behaviour(command)
    arguments.printed(command)
    command.add_argument("-q", "--quiet", action="store_true", help="report only findings that decide each step")


@dataclass(frozen=True)
class _Scene:
    """One command of the rehearsal."""

    title: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class _Played:
    title: str
    command: str
    exit_code: int
    writes: int
    """Requests to the Hub that change data."""


def run(options: argparse.Namespace) -> int:
    """Play every scene in a temporary copy and return the exit code of the worst."""
    if find_prime() is None:
        message = f"The prime CLI, which a release runs, is not installed: {install_prime('rehearse')}"
        raise CommandError(message, exit_codes.ERROR)
    try:
        with tempfile.TemporaryDirectory(prefix="envwright-rehearsal-") as folder:
            return _rehearsed(options.root, Path(folder), options)
    except (FaultSyntaxError, UnknownAssumption) as error:
        raise CommandError(f"envwright rehearse: {error}") from None


def _rehearsed(root: Path, folder: Path, options: argparse.Namespace) -> int:
    stage, print_line = folder / root.name, _printer(options)
    registry = load_registry(root)
    added = rehearsal_copy(root, stage)
    with emulator(
        folder / "hub",
        teams=registered_owners(root),
        key=KEY,
        behaviour=behaviour(options.assume),
        faults=options.fault,
    ) as hub:
        others = {f"{entry.hub_owner}/{entry.hub_name}": entry.version for entry in registry.external.values()}
        for address, version in others.items():
            hub.control("PUT", f"environments/{address}", {"version": version})
        print_line(
            f"A copy of this repository{', with what is not committed,' if added else ''} and a Hub at {hub.url}."
        )
        scenes = _scenes(options.names)
        played = [
            _play(scene, place, len(scenes), stage, folder, hub, options) for place, scene in enumerate(scenes, 1)
        ]
        return _print_outcome(played, hub, others, options)


def _scenes(names: Sequence[str]) -> list[_Scene]:
    release = ("release", *names, "--yes", "--evidence", EVIDENCE)
    return [
        _Scene("validate the environments, as the job without a key does", ("validate", *names)),
        _Scene("plan, as the pull request shows it", ("plan", *names)),
        _Scene("release, as the job with the key does", release),
        _Scene("release once more: nothing remains to be done", release),
        _Scene("train: submit runs that are due", ("train", "--yes", "--quiet")),
    ]


def _play(
    scene: _Scene, place: int, of: int, stage: Path, folder: Path, hub: EmulatedHub, options: argparse.Namespace
) -> _Played:
    quiet = ("--quiet",) if options.quiet and "--quiet" not in scene.command else ()
    command = (*scene.command, *quiet)
    shown = " ".join(("envwright", *command))
    _printer(options)(f"\n{place}/{of}  {scene.title}\n     {shown}\n")
    before = len(hub.writes())
    done = subprocess.run(
        [sys.executable, "-P", "-m", "envwright", *command],
        cwd=stage,
        env=_variables(folder, hub),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr if options.format == "json" else None,
        check=False,
    )
    if done.returncode == exit_codes.INTERRUPTED:
        raise KeyboardInterrupt
    return _Played(scene.title, shown, done.returncode, len(hub.writes()) - before)


def _variables(folder: Path, hub: EmulatedHub, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The user's variables, without those of the real Hub and of GitHub jobs, and with a separate home."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in environ.items() if not name.startswith(("PRIME_", "GITHUB_"))}
    path = [str(Path(__file__).parents[2]), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    caches = {"UV_CACHE_DIR": str(Path.home() / ".cache" / "uv"), CACHE_DIR: str(users_folder() or home)}
    return {**caches, **kept, **hub.environment, "HOME": str(home), "PYTHONPATH": os.pathsep.join(path)}


def _print_outcome(
    played: Sequence[_Played], hub: EmulatedHub, others: Collection[str], options: argparse.Namespace
) -> int:
    """Print the outcome; the exit code is the worst of the scenes."""
    codes = [scene.exit_code for scene in played]
    repeated = played[3].writes
    state = hub.state()
    published = [line for address, line in _published(hub, state) if address not in others]
    if options.format == "json":
        scenes, runs = [asdict(scene) for scene in played], [run["name"] for run in state["run"]]
        print(json.dumps({"scenes": scenes, "published": published, "runs": runs}, indent=2))
    else:
        print("\nOn the Hub of this rehearsal:")
        for line in published or ["nothing"]:
            print(f"  {line}")
        for submitted in state["run"]:
            print(f"  run {submitted['name']} ({submitted['status']})")
        print("The second release changed nothing." if not repeated else f"The second release made {repeated} changes.")
        failed = [scene.title for scene in played if scene.exit_code]
        print(f"Failed: {'; '.join(failed)}" if failed else "A merge would succeed.")
    if exit_codes.FAIL in codes or (repeated and not any(codes)):
        return exit_codes.FAIL
    return max(codes)


def _published(hub: EmulatedHub, state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for environment in state["environment"]:
        at = f"{environment['owner']}/{environment['name']}"
        if latest := hub.control("GET", f"environments/{at}"):
            yield at, f"{at} {latest} {environment['visibility']}"


def _printer(options: argparse.Namespace) -> Any:
    """A function that prints progress; on standard error if the result is JSON."""

    def print_line(text: str) -> None:
        print(text, file=sys.stderr if options.format == "json" else sys.stdout, flush=True)

    return print_line
