"""The requirements of a job that publishes or submits: key, prime CLI, platform, permissions, git.

`doctor --for` reports them, and the jobs refuse by them before they write anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from packaging.version import InvalidVersion, Version

from envwright.builds.machine import HealthCheck
from envwright.declarations.problem import DeclarationError
from envwright.declarations.registry import Registry, load_registry
from envwright.declarations.run import RunSpec
from envwright.declarations.tool_source import REGISTRY_FILE
from envwright.hub.access import TESTED_PRIME, HubAccess, HubUnavailable, Prime, find_prime, hub_access, install_prime
from envwright.hub.state import HubIdentity, read_hub
from envwright.packages.git import git
from envwright.packages.repository import ENVIRONMENTS_FOLDER

PaidJob = Literal["train", "release"]
DOES = {"train": "submitted", "release": "released"}


def job_checks(root: Path, job: PaidJob, hosted: Callable[[RunSpec], bool], stop: threading.Event) -> list[HealthCheck]:
    """Every requirement of a job, the platform's as it answers now. Raises `Interrupted`.

    `hosted` returns whether the platform trains a run; without such a run, `train` needs no platform.
    """
    try:
        registry = load_registry(root)
    except DeclarationError:
        return []  # the check of declarations reports it
    if job == "train" and not any(map(hosted, registry.specs.values())):
        return [HealthCheck("platform", "ok", "no hosted run is declared: training here needs none")]
    access, prime = hub_access(), find_prime()
    identity, version, refusal = None, "", None
    if access.key and prime is not None:
        try:
            hub = read_hub(prime, access, (), stop)
            identity, version = hub.identity, hub.prime
        except HubUnavailable as error:
            refusal = error
    checks = list(platform_checks(job, access, prime, identity, refusal))
    checks += _version(version)
    if identity is not None:
        checks += _owners(registry, identity)
    return [*checks, *(_committed(root) if job == "release" else ())]


def platform_checks(
    job: PaidJob,
    access: HubAccess,
    prime: Prime | None,
    identity: HubIdentity | None,
    refusal: HubUnavailable | None = None,
) -> Iterator[HealthCheck]:
    """The checks without which nothing can be written; `identity` is `None` where the platform was not read."""
    nothing = f"nothing can be {DOES[job]}"
    if not access.key:
        yield HealthCheck("key", "fail", f"{nothing}: no API key", "set PRIME_API_KEY, or run: prime login")
    else:
        yield HealthCheck("key", "ok", f"from {access.source}")
    if prime is None:
        yield HealthCheck("prime CLI", "fail", f"{nothing}: the prime CLI is not installed", install_prime())
    if refusal is not None:
        yield HealthCheck("platform", "fail", f"{nothing}: {refusal.message}", refusal.fix)
    if identity is None:
        return
    yield HealthCheck("platform", "ok", f"answers as {identity.slug}")
    if not identity.may_write and job == "release":
        found = f"the key of {identity.slug} can read environments but not write them"
        do = "create a key with write access to environments, and set PRIME_API_KEY to it"
        yield HealthCheck("permission", "fail", found, do)


def refuse_unready(checks: Iterable[HealthCheck]) -> None:
    """Raise `HubUnavailable` with the first failing check, if there is one."""
    for check in checks:
        if check.level == "fail":
            raise HubUnavailable(check.found, check.do)


def _version(found: str) -> Iterator[HealthCheck]:
    """A CLI that is older than the tested one submits, but `prime train validate` may be missing."""
    if not found:
        return
    try:
        older = Version(found) < Version(TESTED_PRIME)
    except InvalidVersion:
        older = True
    do = f"{TESTED_PRIME} is tested, and has `prime train validate`: {install_prime()}" if older else ""
    yield HealthCheck("prime CLI", "advice" if older else "ok", found, do)


def _owners(registry: Registry, identity: HubIdentity) -> Iterator[HealthCheck]:
    for owner in sorted({entry.owner for entry in registry.environments.values()}):
        if identity.owns(owner) is False:
            found = f"{identity.slug} is not {owner} and not in that team: its new environments are refused"
            yield HealthCheck("owner", "fail", found, "use a key of that owner, or change owner in registry.yaml")


def _committed(root: Path) -> Iterator[HealthCheck]:
    """A release publishes committed files only, and refuses environments with others."""
    status = git(root, "status", "--porcelain", "--untracked-files=all", "--", REGISTRY_FILE, ENVIRONMENTS_FOLDER)
    if status.returncode != 0:
        yield HealthCheck(
            "committed", "fail", "git cannot list uncommitted files", "run it in a clone of the repository"
        )
        return
    files = [line[3:].strip('"') for line in status.stdout.decode(errors="replace").splitlines()]
    if files:
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        found = f"not committed: {', '.join(files[:3])}{more}"
        yield HealthCheck("committed", "fail", found, "commit or remove them: only committed files are published")
    else:
        yield HealthCheck("committed", "ok", f"{REGISTRY_FILE} and {ENVIRONMENTS_FOLDER}/")
