"""What the facts about a machine mean, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version

from envops.hub.access import INSTALL, OLDEST_PRIME
from envops.validation.machine import Machine

Level = Literal["ok", "advice", "fail"]
LEAST_GIGABYTES, ENOUGH_GIGABYTES = 2, 6
"""A virtual environment of verifiers takes 0.6 GB, and there are several."""


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report."""

    name: str
    level: Level
    found: str
    do: str = ""
    """What to do; empty where nothing is."""
    repair: str = ""
    """What `--fix` does about it; empty where it does nothing."""


def examined(machine: Machine) -> list[Check]:
    """Every check, in the order in which things build on each other."""
    return [*_programs(machine), *_space(machine), *_repository(machine), *_hub(machine), *_endpoints(machine)]


def _programs(machine: Machine) -> Iterator[Check]:
    version = Version(machine.python)
    right = Version("3.11") <= version < Version("3.15")
    yield Check("Python", "ok" if right else "fail", machine.python, "" if right else "use Python 3.11 to 3.14")
    install = 'python -m pip install "nox[uv]"'
    yield Check("uv", "ok" if machine.uv else "fail", machine.uv or "not found", "" if machine.uv else install)
    found = machine.git or "not found"
    yield Check("git", "ok" if machine.git else "fail", found, "" if machine.git else "install git, 2.30 or newer")
    if not machine.writes_bytecode:
        do = "unset it: an import of verifiers takes three times as long"
        yield Check("bytecode", "advice", "PYTHONDONTWRITEBYTECODE is set", do)


def _space(machine: Machine) -> Iterator[Check]:
    gigabytes = machine.free_bytes / 1e9
    level: Level = "fail" if gigabytes < LEAST_GIGABYTES else "advice" if gigabytes < ENOUGH_GIGABYTES else "ok"
    do = "" if level == "ok" else "free some: .envops/ may be deleted at any time between runs"
    yield Check("disk", level, f"{gigabytes:.1f} GB free", do)


def _repository(machine: Machine) -> Iterator[Check]:
    if machine.git and not machine.is_repository:
        yield Check("repository", "fail", "this folder is in no git repository", "git init, or change to the clone")
    elif machine.git and not machine.has_identity:
        yield Check("identity", "advice", "git knows no user.email", "git config user.email YOU@EXAMPLE.ORG, to commit")
    locks = [problem for problem in machine.problems if problem.file.endswith(".lock")]
    others = [problem for problem in machine.problems if problem not in locks]
    if not others:
        yield Check("declarations", "ok", "registry and packages can be read")
    for problem in others:
        where = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
        yield Check("declarations", "fail", f"{where}: {problem.message}", problem.fix or "mend it there")
    if not locks and not others:
        yield Check("locks", "ok", f"fresh for {machine.environments} environments")
    for problem in locks:
        yield Check("locks", "fail", f"{problem.file}: {problem.message}", problem.fix or "nox -s lock")
    if machine.unsound:
        names = ", ".join(path.name for path in machine.unsound)
        yield Check("venvs", "advice", f"not whole: {names}", "they are made again when needed", "removes them")
    else:
        yield Check("venvs", "ok", f"{len(machine.venvs)} made, all whole")


def _hub(machine: Machine) -> Iterator[Check]:
    if machine.prime is None:
        yield Check("prime", "advice", "not found", f"only releases and hosted training need it; {INSTALL}")
    else:
        old = _is_older(machine.prime, OLDEST_PRIME)
        do = f"{OLDEST_PRIME} or newer is needed: uv tool upgrade prime" if old else ""
        yield Check("prime", "advice" if old else "ok", machine.prime, do)
    if machine.prime_key:
        yield Check("prime login", "ok", f"a key is in {machine.prime_key}")
    else:
        yield Check("prime login", "advice", "no key", "only releases and hosted training need one: prime login")
    if not machine.hub_token:
        yield Check("HF_TOKEN", "advice", "not set", "only gated data sets of the Hugging Face Hub need it")


def _endpoints(machine: Machine) -> Iterator[Check]:
    if not machine.endpoints:
        yield Check("endpoints", "ok", "none declared; the gates need none")
    for endpoint in machine.endpoints:
        name = f"endpoint {endpoint.name}"
        if endpoint.failure:
            yield Check(name, "advice", f"not reached: {endpoint.failure}", "check url in configs/endpoints.toml")
        elif not endpoint.key_is_set:
            yield Check(
                name, "advice", f"{endpoint.key_variable} is not set", f"export {endpoint.key_variable}=… to use it"
            )
        else:
            key = f"{endpoint.key_variable} is set" if endpoint.key_variable else "needs no key"
            yield Check(name, "ok", f"{key}; {endpoint.reached or 'not asked'}")


def _is_older(version: str, least: str) -> bool:
    try:
        return Version(version) < Version(least)
    except InvalidVersion:
        return False
