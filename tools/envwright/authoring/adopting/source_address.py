"""A SOURCE argument: a folder, a place in a git repository, or an environment of the Hub.

../their-repository                              every environment below its environments/
../their-repository/environments/wordle          one folder
https://host/owner/repository@v1.2#environments/wordle
https://github.com/owner/repository/tree/main/environments/wordle     as a browser shows it
git+https://host/owner/repository@v1.2#subdirectory=environments/wordle    as pip writes it
git@host:owner/repository.git#environments/wordle
owner/wordle@0.1.8                               on the Hub
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_SCHEMES = ("https://", "http://", "ssh://", "file://", "git://")
_SCP = re.compile(r"[\w.-]+@[\w.-]+:(?!/).+")
_TREE = re.compile(r"(?P<repository>https?://[^/]+/.+?)(?:/-)?/(?:tree|blob)/(?P<ref>[^/]+)(?:/(?P<path>.+))?")
_HUB = re.compile(r"(?P<owner>[A-Za-z0-9][\w.-]*)/(?P<name>[A-Za-z0-9][\w.-]*)(?:@(?P<version>[\w.+!-]+))?")


class SourceUnreadable(Exception):
    """A source cannot be brought in; the message has the reason and the next step."""


@dataclass(frozen=True)
class FolderSource:
    """A folder on this machine."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class GitSource:
    """A repository, a revision of it (empty: its default branch) and a path in it (empty: all of it)."""

    repository: str
    ref: str = ""
    path: str = ""

    def __str__(self) -> str:
        return self.repository + (f"@{self.ref}" if self.ref else "") + (f"#{self.path}" if self.path else "")


@dataclass(frozen=True)
class HubSource:
    """An environment of the Hub; the version is empty for the latest."""

    owner: str
    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}" + (f"@{self.version}" if self.version else "")


AnySource = FolderSource | GitSource | HubSource


def source_of(text: str, here: Path) -> AnySource:
    """The source that a text names; `here` is the folder that relative paths start from.

    Raises `SourceUnreadable` for a text that names none of the three.
    """
    if is_git_address(text):
        return _git_source(text)
    try:
        folder = here / Path(text).expanduser()
    except RuntimeError as error:
        raise SourceUnreadable(f"{text}: {error}") from None
    if folder.is_dir():
        return FolderSource(folder.resolve())
    if folder.exists():
        raise SourceUnreadable(f"{text} is a file. Name the folder that has its pyproject.toml.")
    if found := _HUB.fullmatch(text):
        return HubSource(found["owner"], found["name"], found["version"] or "")
    raise SourceUnreadable(
        f"{text}: there is no such folder, and it is neither a git address (https://…/repository@ref#path)"
        " nor an environment of the Hub (owner/name@version)."
    )


def is_git_address(text: str) -> bool:
    """Whether a text is the address of a git repository, without a check of its contents."""
    return text.removeprefix("git+").startswith(_SCHEMES) or _SCP.fullmatch(text) is not None


def _git_source(text: str) -> GitSource:
    address, _, fragment = text.removeprefix("git+").partition("#")
    if found := _TREE.fullmatch(address):
        return GitSource(found["repository"], found["ref"], _path_in(found["path"] or "", text))
    path = dict(part.partition("=")[::2] for part in fragment.split("&")).get("subdirectory", "")
    host, slash, rest = _host_and_rest(address)
    repository, _, ref = rest.partition("@")
    if not repository.strip("/"):
        raise SourceUnreadable(f"{text} does not name a repository. Write https://host/owner/repository@ref#path.")
    return GitSource(host + slash + repository, ref, _path_in(path or fragment, text))


def _host_and_rest(address: str) -> tuple[str, str, str]:
    """The address split after its host, because a user name before it also ends with an @."""
    scheme, separator, rest = address.partition("://")
    if separator:
        host, slash, path = rest.partition("/")
        return f"{scheme}://{host}", slash, path
    return address.partition(":")


def _path_in(path: str, text: str) -> str:
    parts = PurePosixPath(path.strip("/")).parts
    if ".." in parts:
        raise SourceUnreadable(f"{text}: the path behind # leaves the repository.")
    return "/".join(parts)
