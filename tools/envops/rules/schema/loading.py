"""Rules of installing and loading: no secret, no network, no exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import Evidence, described, of_failure
from envops.rules.failures import own_failure

if TYPE_CHECKING:
    from collections.abc import Iterator


@rule("SCH040", gate="schema")
def dependencies_do_not_install(subject: Subject) -> Iterator[Found]:
    """The locked dependencies do not install.

    What: A virtual environment can be created from requirements.lock.
    Why: The environment is validated with exactly the locked packages. What does not install can be neither validated
        nor used.
    Fix: Renew the lock with `nox -s lock -- NAME` and read the errors of uv.
    """
    failure = own_failure(subject, "venv")
    if failure is not None:
        yield Found(f"installing the lock failed: {described(failure)}", of_failure(failure), failure.place)


@rule("SCH041", gate="schema")
def loading_raises(subject: Subject) -> Iterator[Found]:
    """Loading the environment raises.

    What: The installed package imports, and verifiers loads it with the registry's `args`.
    Why: An environment that does not load can be neither evaluated nor trained on.
    Fix: Fix the reported line. Check that every imported package is a dependency.
    """
    failure = own_failure(subject, "load", "raised")
    if failure is not None:
        yield Found(
            f"loading failed: {described(failure)}",
            of_failure(failure, args=dict(subject.entry.args)),
            failure.place,
        )


@rule("SCH042", gate="schema")
def loading_needs_a_secret(subject: Subject) -> Iterator[Found]:
    """Loading needs a secret.

    What: The environment loads without any environment variable that is not declared in the registry's `secrets`.
    Why: Pull requests are validated without keys, and users should be able to try an environment before they pay.
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
    """Loading needs the network.

    What: The environment loads and lists its tasks while only loopback can be reached.
    Why: Dataset hosts limit rates and go down. Every pull request then fails for reasons that have nothing to do with
        it.
    Fix: Ship the data, or a small sample of the same shape, with the package. Or generate it from a seed.
    """
    for stage in ("load", "tasks"):
        failure = own_failure(subject, stage, "network")
        if failure is not None:
            reached = [attempt.address for attempt in subject.facts.network if attempt.stage == stage]
            yield Found(
                f"{_DOING[stage]} needs the network: {described(failure)}",
                of_failure(failure, addresses=reached[:10]),
                failure.place,
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
    if attempts and not failed:
        addresses = list(dict.fromkeys(attempt.address for attempt in attempts))
        yield Found(
            f"{_DOING[attempts[0].stage]} tried to connect to {addresses[0]} ({len(attempts)} attempts)",
            Evidence(count=len(attempts), details={"addresses": addresses[:10]}),
            attempts[0].place,
        )


@rule("SCH045", gate="schema")
def listing_tasks_fails(subject: Subject) -> Iterator[Found]:
    """Listing the tasks raises.

    What: The tasks of every split can be read one by one, without a secret.
    Why: An environment that loads but has no readable tasks fails in the first step of a run.
    Fix: Fix the reported line.
    """
    failure = own_failure(subject, "tasks", "raised", "missing-secret")
    if failure is not None:
        yield Found(f"listing the tasks failed: {described(failure)}", of_failure(failure), failure.place)
