"""`envops train`: compile the declared runs, and submit those that are due."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envops import exit_codes
from envops.act.training.declared import DeclaredRun, declared_runs, leftover_configs, write_configs
from envops.declare.problem import DeclarationError, Problem, nearest
from envops.declare.registry import Registry, load_registry
from envops.declare.repository import Repository
from envops.report.declared_runs import RunResult, render_runs, runs_as_json
from envops.report.written import write_whole


def run(options: argparse.Namespace) -> int:
    """Compile, and submit unless told otherwise; the exit code."""
    if options.check and not options.compile_only:
        print("--check belongs to --compile-only", file=sys.stderr)
        return exit_codes.USAGE
    root = options.root.absolute()
    runs = chosen_runs(root, options.names)
    return _compile(root, runs, options)


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


def run_result(run: DeclaredRun, state: str = "") -> RunResult:
    """One run as reports show it."""
    compiled = run.compiled
    return RunResult(
        name=run.spec.name,
        backend=run.spec.backend,
        model=run.spec.model,
        environments=tuple(source.label for source in run.spec.environments),
        verdict="fail" if run.fails else "pass",
        files=tuple(compiled.files) if compiled else (),
        command=compiled.command if compiled else (),
        units=compiled.knobs if compiled else {},
        notes=compiled.notes if compiled else (),
        findings=run.findings,
        submit=run.spec.submit,
        state=state,
    )


def _compile(root: Path, runs: list[DeclaredRun], options: argparse.Namespace) -> int:
    def keep(_path: Path, _text: str) -> None:
        """Write nothing: what differs is told."""

    changed = write_configs(root, runs, keep if options.check else write_whole)
    leftover = [] if options.names else leftover_configs(root, runs)
    results = [run_result(run) for run in runs]
    print(
        runs_as_json(results) if options.format == "json" else render_runs(results, changed, quiet=options.quiet),
        end="",
    )
    for name in leftover:
        print(f"{name}: its run is declared no more; remove it", file=sys.stderr)
    if options.check:
        for name in changed:
            print(f"{name} is out of date; write it anew with: nox -s train -- --compile-only", file=sys.stderr)
    stale = options.check and (changed or leftover)
    return exit_codes.FAIL if stale or any(run.fails for run in runs) else exit_codes.PASS
