"""Rules of the package's name, version, description and tags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from envwright.facts.observed import Place
from envwright.repository.package import folder_of
from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.repository.package import Package

HUB_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SHORTEST_DESCRIPTION = 20
_PLACEHOLDER = re.compile(
    r"\b(todo|tbd|fixme|xxx|lorem ipsum|placeholder)\b|"
    r"\b(add|your|insert|write|put)\b.{0,20}\bdescription\b|"
    r"\bdescription (goes )?here\b",
    re.IGNORECASE,
)


def in_pyproject(package: Package, key: str) -> Place:
    """The place of a key in pyproject.toml."""
    return Place(*package.place_of(key))


@rule("SCH001", gate="schema", severity="warning", publishing=True)
def name_is_not_accepted_by_the_hub(subject: Subject) -> Iterator[Found]:
    """The Hub does not accept the name.

    What: `project.name` consists of lower-case letters and digits, in words joined by single dashes.
    Why: The Hub addresses an environment by owner/name. It refuses other names or changes them.
    Fix: Rename the distribution in pyproject.toml and registry.yaml, for example to `reverse-text`.
    """
    name = subject.package.name
    if not HUB_NAME.fullmatch(name):
        yield Found(
            f"project.name is {name!r}; the Hub accepts lower-case letters, digits and single dashes",
            Evidence(details={"found": name, "allowed": HUB_NAME.pattern}),
            in_pyproject(subject.package, "project.name"),
        )


@rule("SCH002", gate="schema", severity="warning")
def module_does_not_follow_from_the_name(subject: Subject) -> Iterator[Found]:
    """The module does not have the distribution's name.

    What: The module has the name with underscores for dashes: `reverse-text` is in `reverse_text`.
    Why: verifiers derives the module from the environment's name. `vf-eval` and hosted training import that name, so
        they do not find a module of another one. Runs of this repository name the module instead.
    Fix: Rename the module to the name with underscores for dashes, or the distribution after the module.
    """
    expected, module = folder_of(subject.package.name), subject.package.module
    if module != expected:
        yield Found(
            f"the module is {module!r}; the name {subject.package.name!r} requires {expected!r}",
            Evidence(expected=expected, details={"found": module}),
            in_pyproject(subject.package, "project.name"),
        )


@rule("SCH003", gate="schema")
def version_is_not_pep_440(subject: Subject) -> Iterator[Found]:
    """The version is missing or not valid.

    What: `project.version` exists and follows PEP 440.
    Why: The release cannot be found or pinned. A wheel with an invalid version does not build.
    Fix: Set `project.version`, for example to `0.1.0`.
    """
    version = subject.package.version
    place = in_pyproject(subject.package, "project.version")
    if not version.strip():
        yield Found("project.version is missing", Evidence(), place)
        return
    try:
        Version(version)
    except InvalidVersion:
        yield Found(
            f"project.version is {version!r}, which is not a valid version (PEP 440)",
            Evidence(details={"found": version}),
            place,
        )


@rule("SCH004", gate="schema", severity="warning", publishing=True)
def description_is_not_informative(subject: Subject) -> Iterator[Found]:
    """The description is missing or not informative.

    What: `project.description` is a sentence of at least 20 characters, and neither a placeholder nor only the name.
    Why: It is all that people see in the Hub's list of environments.
    Fix: Describe in one sentence what the model has to do and how it is rewarded.
    """
    package = subject.package
    wrong = _wrong_with_description(package.name, package.description)
    if wrong:
        yield Found(
            f"project.description {wrong}",
            Evidence(details={"found": package.description}),
            in_pyproject(package, "project.description"),
        )


def _wrong_with_description(name: str, description: str) -> str | None:
    text = description.strip()
    if not text:
        return "is missing"
    if _PLACEHOLDER.search(text):
        return f"is a placeholder: {text!r}"
    words = re.findall(r"[^\W_]+", text.lower())
    if [word for word in words if word not in ("environment", "env")] == re.findall(r"[a-z0-9]+", name.lower()):
        return f"only repeats the name: {text!r}"
    if len(text) < SHORTEST_DESCRIPTION:
        return f"has {len(text)} characters, fewer than {SHORTEST_DESCRIPTION}: {text!r}"
    return None


@rule("SCH005", gate="schema", severity="warning", publishing=True)
def tags_are_missing(subject: Subject) -> Iterator[Found]:
    """The package has no tags.

    What: pyproject.toml has at least one tag.
    Why: The Hub's search filters by tags. Without tags, the environment is found by its name only.
    Fix: Add tags to pyproject.toml, for example `tags = ["math", "single-turn"]`.
    """
    if not any(tag.strip() for tag in subject.package.tags):
        yield Found("no tags are declared", Evidence(), in_pyproject(subject.package, "project.tags"))
