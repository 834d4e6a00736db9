"""The selection of environments: all, named, changed, or the part of one machine."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright.cli import arguments
from envwright.declarations.granted_variables import described_grant, registry_beside_key
from envwright.declarations.keys import RuleSetting
from envwright.declarations.package import Package
from envwright.declarations.problem import DeclarationError, Problem, nearest
from envwright.declarations.registry import EnvironmentEntry, Registry
from envwright.declarations.run import EXAMPLE_MODEL
from envwright.declarations.tool_source import REGISTRY_FILE, own_checkout
from envwright.exit_codes import CommandError
from envwright.observing.scheduling import Load, divided, expected_timings
from envwright.packages.repository import Repository
from envwright.reports.printing import print_message
from envwright.reports.result import ShardOfRun
from envwright.rules.engine import refuse_wrong_settings
from envwright.system.workspace import Workspace

if TYPE_CHECKING:
    from envwright.models.model_evaluation import EvaluationTarget


@dataclass(frozen=True)
class Choice:
    """The environments that were chosen."""

    repository: Repository
    names: tuple[str, ...]
    note: str = ""
    """A note on the choice."""
    share: ShardOfRun | None = None
    runs: tuple[str, ...] = ()
    """Declared runs that are judged whether or not their environments are chosen: changed or named ones."""
    former_rules: Mapping[str, RuleSetting] | None = None
    """`rules` at the base of the change, if they differ."""


def chosen_environments(root: Path, options: argparse.Namespace, *, set_apart: bool = False) -> Choice:
    """The environments and runs that the options select; with `set_apart`, broken environments among them.

    Raises `DeclarationError` for an unknown name, an invalid declaration, or an unknown base.
    """
    choice = _selected(root, options, set_apart)
    refuse_wrong_settings(choice.repository.registry)
    shard: tuple[int, int] | None = getattr(options, "shard", None)
    if shard is None:
        return choice
    index, of = shard
    part = divided(loads(choice, Workspace(root)), of)[index - 1].names
    note = f"shard {index} of {of}: {len(part)} of {len(choice.names)} environments"
    names = tuple(name for name in choice.names if name in set(part))
    message = "; ".join(filter(None, (choice.note, note)))
    share = ShardOfRun(index, of, tuple(sorted(choice.names)))
    return replace(choice, names=names, note=message, share=share, runs=choice.runs if index == 1 else ())


def loads(choice: Choice, workspace: Workspace) -> Sequence[Load]:
    """The demands of each chosen environment on a machine, by past timings."""
    timings = expected_timings(choice.names, workspace)
    packages = choice.repository.packages
    locks = {name: lock.digest if name in packages and (lock := packages[name].lock) else name for name in choice.names}
    return [Load(name, timings[name].seconds, locks[name]) for name in choice.names]


def _selected(root: Path, options: argparse.Namespace, set_apart: bool) -> Choice:
    runs: list[str] | None = getattr(options, "runs", None)
    if options.changed is None and runs and not options.names:
        repository = Repository.load(root, only=(), set_apart=set_apart)
        return Choice(repository, (), runs=runs_named(repository.registry, runs))
    if options.changed is None:
        repository = Repository.load(root, options.names or None, set_apart=set_apart)
        return Choice(repository, repository.select(options.names), runs=runs_named(repository.registry, runs or ()))
    from envwright.packages.changes import changed_environments

    change = changed_environments(root, options.changed or None)
    repository = Repository.load(root, only=None if change.everything else change.names, set_apart=set_apart)
    wanted = set(repository.select(options.names))
    touched = {*repository.packages, *(repository.broken if change.everything else change.names | change.removed)}
    specs = repository.registry.specs
    changed = tuple(specs) if change.everything else tuple(name for name in specs if name in change.runs)
    named = runs_named(repository.registry, runs or changed)
    return Choice(
        repository,
        tuple(name for name in repository.select() if name in wanted & touched),
        change.reason,
        runs=tuple(name for name in changed if name in named) if runs or not options.names else (),
        former_rules=change.former_rules,
    )


def runs_named(registry: Registry, names: Iterable[str]) -> tuple[str, ...]:
    """Runs of these names in the order of the registry. Raises `DeclarationError` for one that is not declared."""
    specs, wanted = registry.specs, set(names)
    problems = [
        Problem(
            REGISTRY_FILE,
            None,
            "there is no such run",
            "runs",
            name,
            nearest=nearest(name, specs),
            fix=_instead_of_run(registry, name),
        )
        for name in sorted(wanted - specs.keys())
    ]
    if problems:
        raise DeclarationError(problems)
    return tuple(name for name in specs if name in wanted)


def _instead_of_run(registry: Registry, name: str) -> str:
    """What to do about a name that no run has; for an environment the entry of a run on it."""
    if "/" in name:
        return f"an environment of the Hub: envwright train hub {name}"
    if name not in registry.environments and name not in registry.external:
        return "declare it below `runs:`; `envwright train ENVIRONMENT` shows an entry to begin with"
    entry = (
        f"{name}-run:",
        "  backend: prime                 # hosted; docs/training.md lists the others",
        f"  model: {EXAMPLE_MODEL}",
        f"  environments: [{{id: {name}}}]",
        "  max_steps: 100",
        "  checkpoints: {interval: 25}    # and the last step, which is kept in any case",
    )
    pasted = "\n".join(f"             {line}" for line in entry)
    return f"it is an environment: add a run below `runs:`, then envwright train compile {name}-run\n{pasted}"


def print_grants(repository: Repository, names: Iterable[str]) -> None:
    """Print the user's variables that the code of these environments sees, if they declare any."""
    entries = repository.registry.environments
    for name in names:
        if grant := described_grant(entries[name], repository.root) if name in entries else "":
            print_message(grant)


def beside_key(repository: Repository, names: Collection[str], dollars: float = math.inf) -> Repository:
    """The repository for a command that holds a key, after printing the variables that the environments' code sees.

    Judges that only a candidate declares may cost `dollars` together.
    """
    each = dollars / max(1, len(names))
    limited = replace(repository, registry=registry_beside_key(repository.registry, repository.root, each))
    for name in names:
        allowed = limited.registry.environments[name].secrets
        if withheld := [secret for secret in repository.registry.environments[name].secrets if secret not in allowed]:
            print_message(
                f"{name}: withheld: {', '.join(withheld)}. Beside a key, only secrets that "
                f"{own_checkout() / REGISTRY_FILE} declares for {name} reach its code"
            )
    print_grants(limited, names)
    return limited


def named_environment(options: argparse.Namespace) -> tuple[EnvironmentEntry, Package]:
    """The environment of NAME with what flags set, after printing the variables that its code sees.

    Raises `DeclarationError`.
    """
    repository = Repository.load(options.root, [options.name])
    (name,) = repository.select([options.name])
    print_grants(repository, [name])
    repository = with_flags(repository, [name], options)
    return repository.registry.environments[name], repository.packages[name]


def evaluation_target(options: argparse.Namespace) -> EvaluationTarget:
    """The named environment for a command that holds a key, and the flags of its evaluation."""
    from envwright.models.model_evaluation import EvaluationSettings, EvaluationTarget  # slow, and not for every gate

    settings = arguments.settings(EvaluationSettings, options)
    repository = Repository.load(options.root, [options.name])
    (name,) = repository.select([options.name])
    entry = beside_key(repository, [name]).registry.environments[name]
    return EvaluationTarget(options.root, entry, repository.packages[name], settings)


def refuse_variant(options: argparse.Namespace) -> None:
    """Raise `CommandError` if `-a` cannot be used beside the other arguments: a variant is of one environment."""
    if options.env_args is None:
        return
    wrong = ""
    if options.changed is not None or options.shard is not None or getattr(options, "runs", None):
        wrong = ", without --changed, --shard or --runs"
    elif len(options.names) != 1:
        wrong = f", and {len(options.names)} are given" if options.names else ", and none is given"
    if wrong:
        raise CommandError(f"-a needs one NAME{wrong}: its arguments are those of one environment")


def with_flags(repository: Repository, names: Collection[str], options: argparse.Namespace) -> Repository:
    """The repository with the arguments and the concurrency that flags set for these environments.

    The arguments are added to those of the registry. All of them are part of the cache keys of facts and verdicts.
    """
    given: dict[str, Any] | None = getattr(options, "env_args", None)
    at_once: int | None = getattr(options, "max_concurrent", None)
    if given is None and at_once is None:
        return repository
    registry = repository.registry
    changed = {}
    for name in names:
        entry = registry.environments[name]
        if at_once is not None:
            smoke = replace(entry.gates.smoke, max_concurrent=at_once)
            entry = replace(entry, gates=replace(entry.gates, smoke=smoke))
        changed[name] = replace(entry, args={**entry.args, **(given or {})})
    return replace(repository, registry=replace(registry, environments={**registry.environments, **changed}))


def check_harness(harness: str | None, repository: Repository, names: Iterable[str]) -> None:
    """Raise `CommandError` if a harness is requested and an environment is v0."""
    packages = repository.packages
    without = [name for name in names if name in packages and packages[name].generation == "v0"]
    if harness is not None and without:
        raise CommandError(f"--harness requires v1 environments; v0: {', '.join(without)}")
