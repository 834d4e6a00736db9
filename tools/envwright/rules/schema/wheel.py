"""Rules of the wheel: it builds, and contains exactly the needed files."""

from __future__ import annotations

import re
import sys
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import Evidence, described, of_failure
from envwright.rules.schema.metadata import in_pyproject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.facts.observed import Wheel

OUT_OF_PLACE = {"tests", "test", "recordings"}
_CACHES = {"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".git", ".venv"}
_NOT_SHIPPED_ANYWAY = (".md", ".pyc")
_CODE = (".py", ".so", ".pyd", ".pyc")
_LISTED = 20


@rule("SCH030", gate="schema")
def wheel_does_not_build(subject: Subject) -> Iterator[Found]:
    """The wheel does not build.

    What: A standard build front end builds a wheel from the package in an empty folder.
    Why: A release uploads a wheel. Without one there is nothing to release.
    Fix: Run `uv build --wheel` in the environment's folder and fix the reported errors.
    """
    failure = subject.facts.failures.get("wheel")
    if failure is not None and "wheel" not in subject.facts.broken_infrastructure():
        yield Found(
            f"building the wheel failed: {described(failure)}",
            of_failure(failure),
            failure.place or in_pyproject(subject.package, "build-system"),
        )


@rule("SCH031", gate="schema")
def wheel_lacks_files(subject: Subject) -> Iterator[Found]:
    """The wheel lacks the module or some of its files.

    What: Every file of the module's folder, data included, is in the wheel.
    Why: The environment fails for everyone who installs it. It works in the checkout only.
    Fix: Include the folder in the wheel. For hatchling: `[tool.hatch.build.targets.wheel] packages = ["<module>"]`.
    """
    wheel = subject.facts.wheel
    if wheel is None:
        return
    module = subject.package.module
    shipped = set(wheel.files)
    place = in_pyproject(subject.package, "build-system")
    if not any(name == f"{module}.py" or name.startswith(f"{module}/") for name in shipped):
        yield Found(
            f"{wheel.filename} does not contain {module}", Evidence(details={"contains": _listed(wheel)}), place
        )
        return
    root = subject.package.module_root
    inside = [name.removeprefix(root) for name in subject.package.files if name.startswith(root)]
    needed = [name for name in inside if _belongs(name, module)]
    missing = [name for name in needed if name not in shipped]
    if missing:
        yield Found(
            f"{wheel.filename} lacks {len(missing)} of {len(needed)} files of the module, such as {missing[0]}",
            Evidence(count=len(missing), details={"missing": missing[:_LISTED]}),
            place,
        )


def _belongs(name: str, module: str) -> bool:
    """Whether a file, as seen from the folder of the module, is part of the module and has to be shipped."""
    path = PurePosixPath(name)
    hidden = any(part.startswith(".") or part in _CACHES for part in path.parts)
    ours = name == f"{module}.py" or name.startswith(f"{module}/")
    return ours and not hidden and path.suffix not in _NOT_SHIPPED_ANYWAY


def _listed(wheel: Wheel) -> list[str]:
    return list(wheel.files[:_LISTED])


@rule("SCH032", gate="schema")
def wheel_contains_strays(subject: Subject) -> Iterator[Found]:
    """The wheel contains files that do not belong in it.

    What: Besides the module and its metadata, the wheel has no tests, recordings, lock files, caches, `.env` files or
        other packages.
    Why: Answers, keys or tests are published. Oracles contain the answers, `.env` leaks keys, and a top-level `tests`
        overwrites that of other packages.
    Fix: Include only the module. For hatchling: `[tool.hatch.build.targets.wheel] packages = ["<module>"]`.
    """
    wheel = subject.facts.wheel
    if wheel is None:
        return
    strays = [name for name in wheel.files if _is_stray(name, subject.package.module)]
    if strays:
        yield Found(
            f"{wheel.filename} contains {len(strays)} files that do not belong in it, such as {strays[0]}",
            Evidence(count=len(strays), details={"strays": strays[:_LISTED]}),
            in_pyproject(subject.package, "build-system"),
        )


def _is_stray(name: str, module: str) -> bool:
    path = PurePosixPath(name)
    first = path.parts[0]
    if path.name == ".env" or path.name.startswith(".env.") or path.suffix == ".pyc" or _CACHES & set(path.parts):
        return True
    if first.endswith((".dist-info", ".data")) or first in (module, f"{module}.py"):
        return False
    if len(path.parts) > 1:
        return first in OUT_OF_PLACE or path.suffix == ".py"
    return path.suffix in (".py", ".lock")


@rule("SCH033", gate="schema")
def wheel_shadows_others(subject: Subject) -> Iterator[Found]:
    """The wheel shadows a standard module or a dependency.

    What: No top-level name in the wheel is a module of the standard library or a package in the lock, and there is no
        `.pth` file at the top level.
    Why: Other programs import this code by mistake. After the installation, every program of that Python imports it
        instead of the other module. A `.pth` file even runs when Python starts.
    Fix: Give the module a unique name, and ship nothing else at the top level.
    """
    wheel = subject.facts.wheel
    if wheel is None:
        return
    pins = subject.package.lock.pins if subject.package.lock else {}
    taken = {canonical(name): f"the package {name} in the lock" for name in pins} | _pythons_own()
    for name in dict.fromkeys(filter(None, map(imported_as, wheel.files))):
        whose = "the code that Python runs at its start" if name.endswith(".pth") else taken.get(canonical(name))
        if whose is not None:
            yield Found(
                f"{name} at the top level of {wheel.filename} shadows {whose}",
                Evidence(details={"found": name, "contains": _listed(wheel)}),
                in_pyproject(subject.package, "build-system"),
            )


@cache
def _pythons_own() -> dict[str, str]:
    return {canonical(name): f"Python's own module {name}" for name in sys.stdlib_module_names}


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """A name as pip and Python compare it on a case-insensitive disk."""
    return re.sub(r"[-_.]+", "_", name).lower()


def imported_as(name: str) -> str | None:
    """The top-level name under which a file of the wheel would be imported."""
    first, *rest = PurePosixPath(name).parts
    if first.endswith(".pth"):
        return first
    if rest:
        return first if name.endswith(_CODE) and first.isidentifier() else None
    return first.partition(".")[0] if name.endswith(_CODE) else None
