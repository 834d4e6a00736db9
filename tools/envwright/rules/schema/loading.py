"""Rules of installing and loading: no secret, no network, no exception."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envwright.facts.observed import NOT_PREPARED
from envwright.repository.preparation import UNKNOWN_COMMIT, Preparation, preparation_lines, proposed_preparation
from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import Evidence, described, of_failure
from envwright.rules.failures import own_failure
from envwright.rules.schema.requirements import RECOMMENDED, locked_without_v0, place_of_verifiers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.facts.observed import Failure
    from envwright.facts.stages import StageName


@rule("SCH040", gate="schema")
def dependencies_do_not_install(subject: Subject) -> Iterator[Found]:
    """The locked dependencies do not install.

    What: A virtual environment can be created from requirements.lock.
    Why: The environment can be neither validated nor used. Only the locked packages are installed.
    Fix: Renew the lock with `envwright lock NAME` and read the errors of uv.
    """
    failure = own_failure(subject, "venv")
    if failure is not None:
        yield Found(f"installing the lock failed: {described(failure)}", of_failure(failure), failure.place)


@rule("SCH041", gate="schema")
def loading_raises(subject: Subject) -> Iterator[Found]:
    """Loading the environment raises.

    What: The installed package imports, and verifiers loads it with the registry's `args`.
    Why: The environment cannot be evaluated or trained on.
    Fix: Fix the reported line. Check that every imported package is a dependency.
    """
    failure = own_failure(subject, "load", "raised")
    if failure is None:
        return
    evidence = of_failure(failure, args=dict(subject.entry.args))
    release = locked_without_v0(subject.package)
    if release is None:
        yield Found(f"loading failed: {described(failure)}", evidence, failure.place)
        return
    yield Found(
        f"v0 environment, locked to verifiers {release}: {described(failure)}",
        evidence,
        place_of_verifiers(subject),
        fix=f'Write `"{RECOMMENDED["v0"]}"` in project.dependencies, then `envwright lock {subject.package.name}`.',
    )


@rule("SCH042", gate="schema")
def loading_needs_a_secret(subject: Subject) -> Iterator[Found]:
    """Loading needs a secret.

    What: The environment loads without any environment variable that is not declared in the registry's `secrets`.
    Why: The environment cannot be tried without a key. Pull requests are validated without keys, and users should be
        able to try it before they pay.
    Fix: Read the key where it is used, in scoring or in the rollout. Or declare it under `secrets` in registry.yaml.
    """
    failure = own_failure(subject, "load", "missing-secret")
    if failure is None:
        return
    declared = [name for name in subject.entry.secrets if name in failure.message]
    if declared:
        yield Found(
            f"loading needs {', '.join(declared)}, which is declared but not set",
            of_failure(failure),
            failure.place,
            fix=f"Set {', '.join(declared)} where validate runs, or read it only when it is used.",
            inconclusive=True,
        )
    else:
        yield Found(
            f"loading needs a secret that the registry does not declare: {described(failure)}",
            of_failure(failure, declared=list(subject.entry.secrets)),
            failure.place,
        )


@rule("SCH043", gate="schema")
def loading_needs_the_network(subject: Subject) -> Iterator[Found]:
    """Loading needs data that is downloaded.

    What: The environment loads and lists its tasks while only loopback can be reached.
    Why: Without its data, the environment cannot be judged. Dataset hosts limit rates and go down, and their data
        changes. The gates run offline, so that a pull request fails for its own reasons only.
    Fix: Declare the data under `prepare:` in registry.yaml and run `envwright prepare NAME` once. Or ship the data, or
        a small sample of the same shape, with the package.
    """
    for stage in ("load", "tasks"):
        failure = own_failure(subject, stage, "network")
        if failure is not None and failure.type != NOT_PREPARED:
            yield _missing_data(subject, stage, failure)


def _missing_data(subject: Subject, stage: StageName, failure: Failure) -> Found:
    """The data that loading requested, as far as known, and the declaration that provides it."""
    wanted = subject.facts.wanted
    known = list(dict.fromkeys(one.name for one in wanted if one.kind != "host"))
    addresses = list(dict.fromkeys(one.address for one in subject.facts.network if one.stage == stage))
    what = ", ".join(known[:5]) or ", ".join(addresses[:5]) or described(failure)
    place = next((one.place for one in wanted if one.place), None) or failure.place
    lines, fix = _declaration_and_fix(subject, known)
    details: dict[str, Any] = {"addresses": addresses[:10]} if addresses else {}
    details |= {"registry.yaml": lines} if lines else {}
    shown = of_failure(replace(failure, traceback=""), **details)
    return Found(f"{_DOING[stage]} needs data that is not here: {what}", shown, place, fix, inconclusive=True)


def _declaration_and_fix(subject: Subject, known: list[str]) -> tuple[str, str]:
    """`prepare:` with existing declarations, and the next step; no lines if no declaration helps."""
    name, declared = subject.entry.name, subject.entry.prepare
    proposed = proposed_preparation(subject.facts.wanted).preparation
    held = {(one.name, config) for one in declared.datasets for config in (one.config, None)}
    added = [one for one in proposed.datasets if (one.name, one.config) not in held]
    commands = list(dict.fromkeys(filter(None, (declared.command, proposed.command))))
    if added or (commands and not declared.command):
        whole = Preparation((*declared.datasets, *added), commands[0] if commands else "")
        lines = "\n".join(preparation_lines(whole, indent="    "))
        if UNKNOWN_COMMIT in lines:
            return (
                lines,
                f"`envwright prepare {name}` prints these lines with the commits, to be pasted into registry.yaml.",
            )
        return lines, f"Paste these lines below {name} in registry.yaml, and run `envwright prepare {name}`."
    if len(commands) > 1:
        return "", f"Let the declared command do this, too: {proposed.command}"
    if known:
        return "", (
            "Read it by `load_dataset(name, config)` or by `hf_hub_download`, which find what was prepared while they"
            " are offline; `data_files`, `data_dir` and paths with hf:// do not. Or ship the data with the package."
        )
    return "", (
        f"Write a command of the package that downloads it into its home, declare it for {name} in registry.yaml"
        f" (prepare: {{command: …}}), and run `envwright prepare {name}`. Or ship the data with the package."
    )


@rule("SCH046", gate="schema")
def declared_data_is_not_prepared(subject: Subject) -> Iterator[Found]:
    """Declared data is not on this machine.

    What: The data under `prepare:` in registry.yaml was downloaded, for this lock and, if the command runs code of the
    package, for this code.
    Why: The gates run offline and read prepared data. The environment cannot be judged without it.
    Fix: Run `envwright prepare NAME`, with a network. Later runs read the cache until the declaration changes.
    """
    failure = own_failure(subject, "load", "network")
    if failure is not None and failure.type == NOT_PREPARED:
        declared = subject.entry.prepare
        data = [*(one.name for one in declared.datasets), *([declared.command] if declared.command else [])]
        yield Found(
            f"not on this machine: {', '.join(data[:5])}",
            fix=f"Run `envwright prepare {subject.entry.name}`, with a network.",
            inconclusive=True,
        )


_DOING: dict[str, str] = {"load": "loading", "tasks": "listing the tasks"}


@rule("SCH044", gate="schema", severity="warning")
def loading_tries_the_network(subject: Subject) -> Iterator[Found]:
    """Loading tries the network and continues without it.

    What: Loading and listing tasks open no connection beyond loopback, not even an optional one.
    Why: Without a network, each attempt costs seconds of retries. With one, it may change the tasks.
    Fix: Use the shipped data first, and the network only if an argument requests it.
    """
    attempts = [attempt for attempt in subject.facts.network if attempt.stage in _DOING]
    failed = any(own_failure(subject, stage, "network") for stage in ("load", "tasks"))
    if attempts and not failed and not _is_prepared(subject):
        addresses = list(dict.fromkeys(attempt.address for attempt in attempts))
        yield Found(
            f"{_DOING[attempts[0].stage]} tried to connect to {addresses[0]} ({len(attempts)} attempts)",
            Evidence(count=len(attempts), details={"addresses": addresses[:10]}),
            attempts[0].place,
        )


def _is_prepared(subject: Subject) -> bool:
    """Whether every attempted download is declared: then the data was found, and the attempt only checked for a newer
    version."""
    wanted, declared = subject.facts.wanted, subject.entry.prepare
    names = {one.name for one in declared.datasets}
    return bool(wanted) and all(one.name in names or one.name in declared.command for one in wanted)


@rule("SCH045", gate="schema")
def listing_tasks_fails(subject: Subject) -> Iterator[Found]:
    """Listing the tasks raises.

    What: The tasks of every split can be read one by one, without a secret.
    Why: A run fails in its first step. The environment loads, but its tasks cannot be read.
    Fix: Fix the reported line.
    """
    failure = own_failure(subject, "tasks", "raised", "missing-secret")
    if failure is not None:
        yield Found(f"listing the tasks failed: {described(failure)}", of_failure(failure), failure.place)
