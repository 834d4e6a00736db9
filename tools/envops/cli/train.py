"""`envops train`: compile the declared runs, and submit those that are due."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from envops import exit_codes
from envops.cli.declared import run_result
from envops.files.atomic_write import write_whole
from envops.hub.access import INSTALL, HubUnavailable, find_prime, hub_access
from envops.hub.state import read_hub
from envops.release.planning import desired_of
from envops.release.steps import step_of
from envops.reports.declared_runs import RunResult, render_runs, render_runs_markdown, runs_as_json
from envops.repository.problem import DeclarationError, Problem, nearest
from envops.repository.registry import Registry, load_registry
from envops.repository.repository import Repository
from envops.repository.run import RunSpec
from envops.system.subprocesses import Interrupted
from envops.training.declared_runs import DeclaredRun, declared_runs, leftover_configs, write_configs
from envops.training.due import DecidedRun, Situation, carry_out, decided_runs
from envops.training.trainers import trainer_named


def run(options: argparse.Namespace) -> int:
    """Compile, and submit unless an option forbids it; the exit code."""
    if options.check and not options.compile_only:
        print("--check belongs to --compile-only", file=sys.stderr)
        return exit_codes.USAGE
    if options.requirements:
        return _tell_requirements(options)
    if options.probe:
        from envops.cli.probe import run as run_probe

        return run_probe(options)
    if options.config:
        from envops.cli.train_here import run_config

        return run_config(options.config, options)
    if options.env or options.model:
        from envops.cli.train_fast import run as run_fast

        return run_fast(options)
    root = options.root.absolute()
    if options.compile_only:
        return _compile(root, chosen_runs(root, options.names), options)
    here = _runs_of_this_machine(root, options.names)
    if here and not options.dry_run:
        from envops.cli.train_here import run as run_here

        code = run_here(options, chosen_runs(root, here))
        options.names = [name for name in options.names if name not in here]
        if code != exit_codes.PASS or not options.names:
            return code
    try:
        return _submit(root, options)
    except HubUnavailable as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    except Interrupted:
        return exit_codes.INTERRUPTED


def _runs_of_this_machine(root: Path, names: list[str]) -> list[str]:
    """Those of the named runs that `train` itself trains; they need neither the Hub nor a key."""
    if not names:
        return []
    registry = load_registry(root)
    return [name for name in checked_names(registry, names) if _is_trained_here(registry.specs[name])]


def _is_trained_here(spec: RunSpec) -> bool:
    return trainer_named(spec.backend).limits.on_this_machine


def _tell_requirements(options: argparse.Namespace) -> int:
    """What has to be installed for this call, a file of requirements per line; `nox -s train` asks."""
    known = load_registry(options.root.absolute()).specs if options.names else {}
    chosen = [known[name] for name in options.names if name in known]
    here = options.probe or options.config or any(_is_trained_here(spec) for spec in chosen)
    print("tools/requirements-trl.lock" if here else "tools/requirements-prime.lock")
    return exit_codes.PASS


def _submit(root: Path, options: argparse.Namespace) -> int:
    registry = load_registry(root)
    names = checked_names(registry, options.names)
    situation = _situation(root, registry, names)
    if situation.prime is None and not options.dry_run:
        raise HubUnavailable("nothing can be submitted without a key", "set PRIME_API_KEY, or: --dry-run")
    decided = decided_runs(situation, names, asked=options.names)
    states = {each.run.spec.name: f"{each.decision.action}: {each.decision.reason}" for each in decided}
    outcomes: dict[str, str] = {}
    if not options.dry_run:
        for each in decided:
            if each.decision.action == "submit":
                said = carry_out(situation, each)
                outcomes[each.run.spec.name] = said.outcome
                states[each.run.spec.name] = ": ".join(filter(None, (said.outcome, said.message, said.next)))
    results = [run_result(each.run, states[each.run.spec.name], each.decision.next) for each in decided]
    print(situation.access.scrubber.text(_shown(results, (), options)), end="")
    return _exit_code(decided, outcomes)


def _situation(root: Path, registry: Registry, names: list[str]) -> Situation:
    """What the Hub has of the environments that these runs use."""
    access, prime = hub_access(), find_prime()
    stop = threading.Event()
    if not access.key:
        return Situation(root, registry, access, None, frozenset(), stop)
    if prime is None:
        raise HubUnavailable("the prime CLI is not installed", INSTALL)
    specs = [registry.specs[name] for name in names]
    used = {source.id for spec in specs for source in (*spec.environments, *spec.evaluated)}
    local = sorted(used & set(registry.environments))
    packages = Repository.load(root, local).packages if local else {}
    desired = [desired_of(registry.environments[name], package) for name, package in packages.items()]
    hub = read_hub(prime, access, [each.address for each in desired], stop)
    ready = frozenset(
        each.name for each in desired if step_of(each, hub.readings.get(each.address)).action == "unchanged"
    )
    return Situation(root, registry, access, prime, ready, stop)


def _exit_code(decided: list[DecidedRun], outcomes: dict[str, str]) -> int:
    actions = {each.decision.action for each in decided}
    if "failed" in outcomes.values() or "refused" in actions:
        return exit_codes.FAIL
    return exit_codes.ERROR if "unknown" in outcomes.values() or "unreadable" in actions else exit_codes.PASS


def chosen_runs(root: Path, names: list[str]) -> list[DeclaredRun]:
    """The named runs, or all of them, compiled and judged.

    Raises `DeclarationError` where the registry or a name is wrong.
    """
    registry = load_registry(root)
    specs = [registry.specs[name] for name in checked_names(registry, names)]
    used = {source.id for spec in specs for source in (*spec.environments, *spec.evaluated)}
    local = sorted(used & set(registry.environments))
    packages = Repository.load(root, local).packages if local else {}
    return declared_runs(registry, packages, specs)


def checked_names(registry: Registry, names: list[str]) -> list[str]:
    """The runs of these names, in the order of the registry; all for none.

    Raises `DeclarationError` for a name that is no run.
    """
    unknown = [name for name in names if name not in registry.specs]
    if unknown:
        raise DeclarationError(
            Problem("registry.yaml", None, "there is no such run", "runs", name, nearest=nearest(name, registry.specs))
            for name in unknown
        )
    return [name for name in registry.specs if not names or name in names]


def _shown(results: Sequence[RunResult], changed: Sequence[str], options: argparse.Namespace) -> str:
    if options.format == "json":
        return runs_as_json(results)
    if options.format == "markdown":
        return render_runs_markdown(results)
    return render_runs(results, changed, quiet=options.quiet)


def _compile(root: Path, runs: list[DeclaredRun], options: argparse.Namespace) -> int:
    def keep(_path: Path, _text: str) -> None:
        """Write nothing: the difference is printed."""

    changed = write_configs(root, runs, keep if options.check else write_whole)
    leftover = [] if options.names else leftover_configs(root, runs)
    results = [run_result(run) for run in runs]
    print(_shown(results, changed, options), end="")
    for name in leftover:
        print(f"{name}: its run is declared no more; remove it", file=sys.stderr)
    if options.check:
        for name in changed:
            print(f"{name} is out of date; write it anew with: nox -s train -- --compile-only", file=sys.stderr)
    stale = options.check and (changed or leftover)
    return exit_codes.FAIL if stale or any(run.fails for run in runs) else exit_codes.PASS
