"""Reads one environment's folder into a `Package`, without importing any of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from envwright.declarations.declared_text import read_text, relative
from envwright.declarations.package import CaseDeclaration, Lock, Package, folder_of
from envwright.declarations.problem import DeclarationError, Problem
from envwright.packages.cases import read_cases
from envwright.packages.content import UnreadablePatternError, hub_content_hash, list_content, strict_digest
from envwright.packages.environment_lock import read_lock, requirements_to_lock, sources_left_out
from envwright.packages.module import ModulePlace, find_modules
from envwright.packages.pyproject import Pyproject, parse_requirement, read_pyproject, readable_requirement
from envwright.packages.settings import read_mutation_settings, read_settings
from envwright.packages.source import generation_of, read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

CASES_FILE = "tests/cases.yaml"
ORACLE_FILE = "tests/oracle.py"

_TEST_FILE = re.compile(r"tests/(?:.+/)?(?:test_[^/]*|[^/]*_test)\.py")


@dataclass(frozen=True)
class PackageReading:
    """The result of reading a folder: the package, if it is recognisable, and every problem."""

    package: Package | None
    problems: tuple[Problem, ...]


def read_package(folder: Path, root: Path, *, with_lock: bool = True) -> PackageReading:
    """Read the environment in `folder` of the repository at `root`.

    Without `with_lock` the lock is not read: for the commands that write it.
    """
    content = list_content(folder, root)
    if content.problems:
        return PackageReading(None, content.problems)
    try:
        pyproject = read_pyproject(folder / "pyproject.toml", root)
    except DeclarationError as error:
        return PackageReading(None, error.problems)
    problems = list(_project_problems(pyproject))
    name = _text(pyproject.table("project"), "name")
    if not name:
        return PackageReading(None, tuple(problems))
    problems += _folder_problems(folder, root, folder_of(name))
    modules = find_modules(folder, content.files, pyproject)
    problems += _module_problems(folder, root, folder_of(name), content.files, modules)
    module = modules[0] if modules else ModulePlace(folder_of(name))
    reading = _read(folder, root, pyproject, content.files, module, with_lock)
    return PackageReading(reading.package, (*problems, *reading.problems))


def _read(
    folder: Path, root: Path, pyproject: Pyproject, files: tuple[str, ...], module: ModulePlace, with_lock: bool
) -> PackageReading:
    package, problems = _declared(folder, pyproject, module)
    source, found = read_source(folder, root, f"{module.root}{module.name}", files)
    problems += found
    cases, found = _cases(folder, root, files)
    problems += found
    readme, found = _readme(folder, root, files)
    problems += found
    hub_hash, found = _hub_hash(folder, root)
    problems += found
    lock: Lock | None = None
    if with_lock:
        lock, found = read_lock(folder, root, package.name, pyproject)
        problems += found
    package = replace(
        package,
        generation=generation_of(_verifiers_bound(package.requires), source),
        readme=readme,
        has_oracle=ORACLE_FILE in files,
        cases=cases,
        test_files=tuple(file for file in files if _TEST_FILE.fullmatch(file)),
        exports=source.exports,
        defines_load_environment=source.defines_load_environment,
        eval_split=source.eval_split,
        uses_judge=source.uses_judge,
        agents=source.agents,
        settings=source.settings,
        is_harness=source.exports_harness and not source.exports_taskset and not source.defines_load_environment,
        notes=source.notes,
        files=files,
        digest=strict_digest(folder, files),
        hub_hash=hub_hash,
        lock=lock,
    )
    return PackageReading(package, tuple(problems))


def _declared(folder: Path, pyproject: Pyproject, module: ModulePlace) -> tuple[Package, list[Problem]]:
    """The declarations of pyproject.toml alone; everything else is empty."""
    project, build = pyproject.table("project"), pyproject.table("build-system")
    reward, answer, problems = read_settings(pyproject)
    mutation, found = read_mutation_settings(pyproject)
    problems += found
    package = Package(
        name=canonicalize_name(_text(project, "name")),
        folder=folder,
        module=module.name,
        module_root=module.root,
        declared_name=_text(project, "name"),
        version=_text(project, "version"),
        description=_text(project, "description"),
        tags=_texts(project, "tags"),
        requires_python=_text(project, "requires-python"),
        requires=_texts(project, "dependencies"),
        requires_to_lock=requirements_to_lock(pyproject),
        sources_left_out=sources_left_out(pyproject),
        build_requires=_texts(build, "requires"),
        generation=None,
        readme=None,
        eval_settings=pyproject.table("tool", "verifiers", "eval"),
        reward=reward,
        answer=answer,
        mutation=mutation,
        fresh_process=pyproject.table("tool", "envwright", "worker").get("fresh") is True,
        lines=pyproject.lines,
    )
    return package, problems


def _project_problems(pyproject: Pyproject) -> Iterator[Problem]:
    project = pyproject.data.get("project")
    if not isinstance(project, dict):
        yield Problem(pyproject.file, 1, "has no table [project]", fix="add [project] with name, version, description")
        return
    if not project.get("name", ""):
        yield pyproject.problem("project", "lacks the key name")
    for key in ("name", "version", "description", "requires-python"):
        if key in project and not isinstance(project[key], str):
            yield pyproject.problem(f"project.{key}", "is not text", project[key], fix="put it in quotes")
    tables: tuple[tuple[str, Mapping[str, Any], str], ...] = (
        ("project.dependencies", project, "dependencies"),
        ("project.tags", project, "tags"),
        ("build-system.requires", pyproject.table("build-system"), "requires"),
    )
    for place, table, key in tables:
        found = table.get(key, [])
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            yield pyproject.problem(place, "is not a list of texts", found)
    yield from _requirement_problems(pyproject, "project.dependencies", _texts(project, "dependencies"))
    yield from _requirement_problems(
        pyproject, "build-system.requires", _texts(pyproject.table("build-system"), "requires")
    )
    try:
        SpecifierSet(_text(project, "requires-python"))
    except InvalidSpecifier:
        found = project["requires-python"]
        yield pyproject.problem(
            "project.requires-python", "is not a version bound", found, allowed='such as ">=3.11,<3.14"'
        )


def _requirement_problems(pyproject: Pyproject, place: str, requires: tuple[str, ...]) -> Iterator[Problem]:
    for index, text in enumerate(requires):
        try:
            parse_requirement(text)
        except InvalidRequirement as error:
            reason = str(error).splitlines()[0]
            yield pyproject.problem(f"{place}[{index}]", f"is not a valid requirement: {reason}", text)


def _folder_problems(folder: Path, root: Path, expected: str) -> Iterator[Problem]:
    if folder.name != expected:
        message = "is not the name of the distribution with underscores"
        fix = "rename the folder or the project"
        yield Problem(relative(folder, root), None, message, found=folder.name, allowed=expected, fix=fix)


def _module_problems(
    folder: Path, root: Path, expected: str, files: tuple[str, ...], modules: Sequence[ModulePlace]
) -> Iterator[Problem]:
    file = relative(folder, root)
    if not modules:
        held = any(name.startswith(f"{expected}/") for name in files)
        message = f"has no module {expected}" if not held else f"the folder {expected}/ has no __init__.py"
        yield Problem(file, None, message, allowed=f"{expected}/__init__.py or {expected}.py")
    elif len(modules) == 1:
        return
    elif len({place.name for place in modules}) == 1:
        single = next(place for place in modules if not place.is_folder)
        message = f"exists beside the package {single.root}{single.name}/"
        yield Problem(f"{file}/{single.file}", None, message, fix="remove one of them")
    else:
        found = ", ".join(place.file for place in modules)
        message = "has several modules, and the one that verifiers loads cannot be determined"
        fix = "name the module in the build backend's table of pyproject.toml"
        yield Problem(file, None, message, found=found, allowed=f"one called {expected}", fix=fix)


def _verifiers_bound(requires: tuple[str, ...]) -> SpecifierSet | None:
    for text in requires:
        requirement = readable_requirement(text)
        if requirement and canonicalize_name(requirement.name) == "verifiers":
            return requirement.specifier
    return None


def _hub_hash(folder: Path, root: Path) -> tuple[str, list[Problem]]:
    try:
        return hub_content_hash(folder), []
    except UnreadablePatternError as error:
        file, message = relative(folder / ".gitignore", root), "has a pattern on which prime env push fails or hangs"
        return "", [Problem(file, error.line, message, found=error.pattern, fix="write the pattern another way")]


def _cases(folder: Path, root: Path, files: tuple[str, ...]) -> tuple[tuple[CaseDeclaration, ...], list[Problem]]:
    if CASES_FILE not in files:
        return (), []
    try:
        return read_cases(folder / CASES_FILE, root)
    except DeclarationError as error:
        return (), list(error.problems)


def _readme(folder: Path, root: Path, files: tuple[str, ...]) -> tuple[str | None, list[Problem]]:
    if "README.md" not in files:
        return None, []
    try:
        return read_text(folder / "README.md", root), []
    except DeclarationError as error:
        return None, list(error.problems)


def _text(table: Mapping[str, Any], key: str) -> str:
    found = table.get(key)
    return found if isinstance(found, str) else ""


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = table.get(key)
    return tuple(text for text in found if isinstance(text, str)) if isinstance(found, list) else ()
