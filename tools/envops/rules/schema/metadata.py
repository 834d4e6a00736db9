"""Name, version, description and tags of the package."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from envops.facts.observed import Place
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.repository.package import Package

HUB_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SHORTEST_DESCRIPTION = 20
_PLACEHOLDER = re.compile(
    r"\b(todo|tbd|fixme|xxx|lorem ipsum|placeholder)\b|"
    r"\b(add|your|insert|write|put)\b.{0,20}\bdescription\b|"
    r"\bdescription (goes )?here\b",
    re.IGNORECASE,
)


def in_pyproject(package: Package, key: str) -> Place:
    """Where a key of pyproject.toml stands."""
    return Place(*package.place_of(key))


@rule("SCH001", gate="schema")
def name_is_not_what_the_hub_takes(subject: Subject) -> Iterator[Found]:
    """The name is not one that the Hub takes.

    What: `project.name` is lower case letters and digits, in words joined by single dashes.
    Why: The Hub addresses an environment by owner/name and refuses other names, or takes them under another
        one.
    Fix: Rename the distribution in pyproject.toml and registry.yaml, such as `reverse-text`.
    """
    name = subject.package.name
    if not HUB_NAME.fullmatch(name):
        yield Found(
            f"project.name is {name!r}; the Hub takes lower case letters, digits and single dashes",
            Evidence(details={"found": name, "allowed": HUB_NAME.pattern}),
            in_pyproject(subject.package, "project.name"),
        )


@rule("SCH002", gate="schema")
def folder_or_module_do_not_follow_from_the_name(subject: Subject) -> Iterator[Found]:
    """Folder or module do not follow from the name.

    What: Folder and module are the name with underscores for dashes: `reverse-text` is in `reverse_text`.
    Why: verifiers finds an environment's module by the name it has on the Hub; under any other name it does
        not load.
    Fix: Rename folder and module to the name with underscores for dashes.
    """
    expected = subject.package.name.replace("-", "_")
    found = {"folder": subject.package.folder.name, "module": subject.package.module}
    wrong = {what: name for what, name in found.items() if name != expected}
    if wrong:
        named = " and ".join(f"the {what} is {name!r}" for what, name in wrong.items())
        yield Found(
            f"{named}; by the name {subject.package.name!r} it should be {expected!r}",
            Evidence(expected=expected, details={"found": wrong}),
            in_pyproject(subject.package, "project.name"),
        )


@rule("SCH003", gate="schema")
def version_is_not_pep_440(subject: Subject) -> Iterator[Found]:
    """The version is not one that installers understand.

    What: `project.version` is there and follows PEP 440.
    Why: A release is found, ordered and pinned by its version; a wheel with any other one does not build.
    Fix: Set `project.version`, such as `0.1.0`.
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
            f"project.version is {version!r}, which is not a version by PEP 440",
            Evidence(details={"found": version}),
            place,
        )


@rule("SCH004", gate="schema")
def description_says_nothing(subject: Subject) -> Iterator[Found]:
    """The description is missing or says nothing.

    What: `project.description` is a sentence of at least 20 characters, neither a placeholder nor the name
        again.
    Why: It is all that people see in the Hub's list when they look for an environment.
    Fix: Say in one sentence what the model has to do and how it is rewarded.
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


@rule("SCH005", gate="schema")
def tags_are_missing(subject: Subject) -> Iterator[Found]:
    """The package has no tags.

    What: pyproject.toml names at least one tag.
    Why: The Hub's search filters by tags; without any the environment is found by its name alone.
    Fix: Add tags to pyproject.toml, such as `tags = ["math", "single-turn"]`.
    """
    if not any(tag.strip() for tag in subject.package.tags):
        yield Found("no tags are declared", Evidence(), in_pyproject(subject.package, "project.tags"))
