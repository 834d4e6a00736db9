"""Installing and loading: without secrets, without network, without an exception."""

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

    What: A virtual environment can be made from requirements.lock.
    Why: The environment is judged on exactly what is locked; what does not install cannot be judged or used.
    Fix: Renew the lock with `nox -s lock -- NAME` and read what uv says.
    """
    failure = own_failure(subject, "venv")
    if failure is not None:
        yield Found(f"installing the lock failed: {described(failure)}", of_failure(failure), failure.place)


@rule("SCH041", gate="schema")
def loading_raises(subject: Subject) -> Iterator[Found]:
    """Loading the environment raises.

    What: The installed package imports, and verifiers loads it with the registry's `args`.
    Why: Nobody can evaluate or train on an environment that does not load.
    Fix: Mend the line that is named; check that everything it imports is a dependency of the package.
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
    """Loading asks for a secret.

    What: The environment loads without any environment variable that is not declared in the registry's
        `secrets`.
    Why: Pull requests are proven without keys, and who installs it should be able to look before paying.
    Fix: Read the key where it is used, in scoring or in the rollout; or declare it under `secrets` in
        registry.yaml.
    """
    failure = own_failure(subject, "load", "missing-secret")
    if failure is None:
        return
    declared = [name for name in subject.entry.secrets if name in failure.message]
    if declared:
        yield Found(
            f"loading needs {', '.join(declared)}, which is declared but has no value here",
            of_failure(failure),
            failure.place,
            fix=f"Set {', '.join(declared)} where validate runs, or read it only when it is used.",
            inconclusive=True,
        )
    else:
        yield Found(
            f"loading asks for a secret that the registry does not declare: {described(failure)}",
            of_failure(failure, declared=list(subject.entry.secrets)),
            failure.place,
        )


@rule("SCH043", gate="schema")
def loading_needs_the_network(subject: Subject) -> Iterator[Found]:
    """Loading needs the network.

    What: The environment loads and lists its tasks while nothing beyond loopback can be reached.
    Why: Dataset hosts limit rates and go down, and then every pull request fails for no fault of its own.
    Fix: Ship the data, or a small sample of the same shape, with the package; or make it from a seed.
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
    """Loading tries the network, and goes on without it.

    What: Loading and listing tasks open no connection beyond loopback, not even one they can do without.
    Why: Each attempt costs seconds of retries where there is no network, and may change the tasks where
        there is.
    Fix: Take the shipped data first, and the network only when an argument asks for it.
    """
    attempts = [attempt for attempt in subject.facts.network if attempt.stage in _DOING]
    failed = any(own_failure(subject, stage, "network") for stage in ("load", "tasks"))
    if attempts and not failed:
        addresses = list(dict.fromkeys(attempt.address for attempt in attempts))
        yield Found(
            f"{_DOING[attempts[0].stage]} tried to reach {addresses[0]} ({len(attempts)} attempts in all)",
            Evidence(count=len(attempts), details={"addresses": addresses[:10]}),
            attempts[0].place,
        )


@rule("SCH045", gate="schema")
def listing_tasks_fails(subject: Subject) -> Iterator[Found]:
    """Listing the tasks raises.

    What: The tasks of every split can be read one by one, without a secret.
    Why: An environment that loads but has no readable tasks fails in the first step of a run.
    Fix: Mend the line that is named.
    """
    failure = own_failure(subject, "tasks", "raised", "missing-secret")
    if failure is not None:
        yield Found(f"listing the tasks failed: {described(failure)}", of_failure(failure), failure.place)
