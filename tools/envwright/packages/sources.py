"""The inputs of a lock: the requirements, with the addresses of their sources.

`[tool.uv.sources]` is uv's own table. uv reads it for a project, but not for a list of requirements. So each address is
written into its requirement here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from envwright.packages.pyproject import readable_requirement

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from envwright.packages.pyproject import Pyproject

_SSH_AS_GIT_WRITES_IT = re.compile(r"(?P<user>[\w.-]+@[\w.-]+):(?!//)(?P<path>.+)")


def requirements_to_lock(pyproject: Pyproject) -> tuple[str, ...]:
    """The package's requirements, in which a source that is a git repository is the requirement's address."""
    sources = _sources(pyproject)
    return tuple(located for text in _requires(pyproject) for located in _located(text, sources))


def sources_left_out(pyproject: Pyproject) -> tuple[str, ...]:
    """Requirements with a source other than a git repository: a folder or an index. They lock from the usual index."""
    requirements = map(readable_requirement, _requires(pyproject))
    names = {canonicalize_name(requirement.name) for requirement in requirements if requirement}
    return tuple(name for name, found in _sources(pyproject).items() if name in names and not any(map(_is_git, found)))


def _requires(pyproject: Pyproject) -> list[str]:
    requires = pyproject.table("project").get("dependencies", ())
    return [text for text in requires if isinstance(text, str)] if isinstance(requires, list) else []


def _sources(pyproject: Pyproject) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for name, declared in pyproject.table("tool", "uv", "sources").items():
        several = declared if isinstance(declared, list) else [declared]
        found[canonicalize_name(name)] = [each for each in several if isinstance(each, dict)]
    return found


def _is_git(source: Mapping[str, Any]) -> bool:
    return isinstance(source.get("git"), str)


def _located(text: str, sources: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[str]:
    requirement = readable_requirement(text)
    found = sources.get(canonicalize_name(requirement.name), []) if requirement else []
    repositories = [source for source in found if _is_git(source)]
    if requirement is None or requirement.url or not repositories:
        yield text
        return
    for source in repositories:
        yield _at(requirement, source)


def _at(requirement: Requirement, source: Mapping[str, Any]) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    markers = [str(marker) for marker in (requirement.marker, source.get("marker")) if marker]
    marker = " and ".join(f"({each})" for each in markers) if len(markers) > 1 else "".join(markers)
    return f"{requirement.name}{extras} @ {_address(source)}" + (f" ; {marker}" if marker else "")


def _address(source: Mapping[str, Any]) -> str:
    url = str(source["git"])
    if found := _SSH_AS_GIT_WRITES_IT.fullmatch(url):
        url = f"ssh://{found['user']}/{found['path']}"
    revision = next((str(source[key]) for key in ("rev", "tag", "branch") if source.get(key)), "")
    folder = source.get("subdirectory")
    address = url if url.startswith("git+") else f"git+{url}"
    return address + (f"@{revision}" if revision else "") + (f"#subdirectory={folder}" if folder else "")
