"""Rules of the requirements on Python and verifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import Evidence
from envops.rules.schema.metadata import in_pyproject
from envops.rules.verifiers_releases import (
    PYTHONS,
    is_bounded_above,
    misfit,
    python_of,
    pythons_admitted,
    verifiers_requirement,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version

    from envops.facts.observed import Place

RECOMMENDED = {"v0": "verifiers>=0.1.9,<0.4", "v1": "verifiers>=0.4,<0.5"}


def _fix(subject: Subject) -> str:
    recommended = RECOMMENDED[subject.package.generation or "v1"]
    return f'Write `"{recommended}"` in project.dependencies, then `nox -s lock -- {subject.package.name}`.'


def _place_of_verifiers(subject: Subject) -> Place:
    """The line of the requirement, or of the list that should hold it."""
    package = subject.package
    index = next((i for i, text in enumerate(package.requires) if verifiers_requirement((text,))), None)
    key = f"project.dependencies[{index}]"
    return in_pyproject(package, key if key in package.lines else "project.dependencies")


def _release(subject: Subject) -> str | None:
    """The release of verifiers that the environment runs on: as loaded, else as locked."""
    if subject.facts.description is not None:
        return subject.facts.description.verifiers
    return subject.package.lock.pins.get("verifiers") if subject.package.lock else None


def _minor(version: Version) -> str:
    return f"{version.major}.{version.minor}"


@rule("SCH006", gate="schema")
def python_is_missing_or_unsupported(subject: Subject) -> Iterator[Found]:
    """requires-python is missing or excludes every Python that verifiers supports.

    What: `project.requires-python` exists, parses, and has a version in common with what the locked verifiers release
        supports.
    Why: The Hub shows it and installers obey it. Without a common version the environment cannot be installed.
    Fix: Write `requires-python = ">=3.11,<3.14"`.
    """
    declared = subject.package.requires_python
    place = in_pyproject(subject.package, "project.requires-python")
    if not declared.strip():
        yield Found("project.requires-python is missing", Evidence(), place)
        return
    admitted = pythons_admitted(declared)
    if admitted is None:
        yield Found(
            f"project.requires-python is {declared!r}, which does not parse",
            Evidence(details={"found": declared}),
            place,
        )
        return
    release = _release(subject)
    supported = python_of(release) if release else None
    if supported is not None and not any(supported.contains(version) for version in admitted):
        yield Found(
            f"project.requires-python {declared!r} allows no Python that verifiers {release} supports ({supported})",
            Evidence(details={"found": declared, "verifiers": release, "supported": str(supported)}),
            place,
        )


@rule("SCH007", gate="schema", severity="warning")
def python_is_wider_than_verifiers(subject: Subject) -> Iterator[Found]:
    """requires-python allows older Pythons than verifiers supports.

    What: The oldest Python that `project.requires-python` allows is supported by the locked verifiers release.
    Why: On older Pythons the installer accepts the environment and then fails on verifiers, far from the cause.
    Fix: Raise the lower bound to that of verifiers, for example `requires-python = ">=3.11,<3.14"`.
    """
    declared = subject.package.requires_python
    admitted = pythons_admitted(declared) if declared.strip() else None
    release = _release(subject)
    supported = python_of(release) if release else None
    if not admitted or supported is None:
        return
    oldest = next((version for version in PYTHONS if supported.contains(version)), None)
    shared = any(supported.contains(version) for version in admitted)
    if shared and oldest is not None and admitted[0] < oldest:
        yield Found(
            f"project.requires-python {declared!r} allows Python {_minor(admitted[0])}, but verifiers {release} "
            f"requires {supported}",
            Evidence(details={"found": declared, "verifiers": release, "supported": str(supported)}),
            in_pyproject(subject.package, "project.requires-python"),
        )


@rule("SCH008", gate="schema")
def verifiers_is_not_required(subject: Subject) -> Iterator[Found]:
    """The package does not require verifiers.

    What: `project.dependencies` includes verifiers.
    Why: Installed from the Hub into a new virtual environment, the package fails on its first import.
    Fix: Require verifiers with an upper bound: `verifiers>=0.4,<0.5` (v1) or `verifiers>=0.1.9,<0.4` (v0).
    """
    if verifiers_requirement(subject.package.requires) is None:
        yield Found(
            "project.dependencies does not name verifiers",
            Evidence(details={"found": list(subject.package.requires)}),
            _place_of_verifiers(subject),
            fix=_fix(subject),
        )


@rule("SCH009", gate="schema")
def verifiers_is_unbounded(subject: Subject) -> Iterator[Found]:
    """The requirement on verifiers has no upper bound.

    What: The requirement on verifiers has an upper bound, an exact release or a compatible one (`<`, `<=`, `==`,
        `~=`).
    Why: `verifiers>=0.1` resolves to 0.4, which no longer has the v0 interface. The import that worked yesterday
        fails.
    Fix: Add an upper bound: `verifiers>=0.4,<0.5` (v1) or `verifiers>=0.1.9,<0.4` (v0).
    """
    requirement = verifiers_requirement(subject.package.requires)
    if requirement is not None and not is_bounded_above(requirement):
        yield Found(
            f"{str(requirement)!r} has no upper bound",
            Evidence(details={"found": str(requirement)}),
            _place_of_verifiers(subject),
            fix=_fix(subject),
        )


@rule("SCH010", gate="schema")
def verifiers_does_not_fit_the_generation(subject: Subject) -> Iterator[Found]:
    """The requirement on verifiers allows releases without the generation's interface.

    What: A v0 environment allows only releases below 0.4, a v1 environment only 0.2.1 and later.
    Why: Other releases lack the interface that the environment was written for, and its import fails.
    Fix: Narrow the requirement: `verifiers>=0.4,<0.5` (v1) or `verifiers>=0.1.9,<0.4` (v0).
    """
    requirement = verifiers_requirement(subject.package.requires)
    generation = subject.package.generation
    if requirement is None or generation is None or not is_bounded_above(requirement):
        return
    wrong = misfit(requirement, generation)
    if wrong:
        yield Found(
            f"{str(requirement)!r} {wrong}, which lacks the {generation} interface",
            Evidence(details={"found": str(requirement), "generation": generation}),
            _place_of_verifiers(subject),
            fix=_fix(subject),
        )


@rule("SCH011", gate="schema")
def nothing_to_load(subject: Subject) -> Iterator[Found]:
    """The module has nothing that verifiers can load.

    What: The module defines `load_environment` (v0) or exports a Taskset through `__all__` (v1).
    Why: Without one of the two, verifiers cannot load the environment by its name.
    Fix: Define `load_environment(**args)` (v0), or add the Taskset class to the module's `__all__` (v1).
    """
    package = subject.package
    if subject.facts.description is not None:
        return  # it was loaded, so the source text does not matter
    loader = package.defines_load_environment or "load_environment" in package.exports
    taskset = bool(set(package.exports) - {"load_environment"})
    said = {
        "v0": None if loader else "there is no load_environment, which a v0 environment needs",
        "v1": None if taskset else "its __all__ exports no Taskset, which a v1 environment needs",
        None: "there is neither load_environment nor an exported Taskset",
    }[package.generation]
    if said is None:
        return
    yield Found(
        f"module {package.module}: {said}",
        Evidence(details={"exports": list(package.exports), "generation": package.generation}),
    )
