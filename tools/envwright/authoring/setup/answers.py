"""The answers from which the files of a repository are written, and the file that records them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from packaging.version import InvalidVersion, Version
from pydantic import Field, ValidationError

from envwright import __version__
from envwright.declarations.declared_text import read_text
from envwright.declarations.problem import DeclarationError, Problem
from envwright.declarations.registry_values import KEYS, Flag, Owner, Slug, Text, Unique
from envwright.declarations.required_version import UPGRADE_TOOL
from envwright.facts.observed import adapter
from envwright.reports.documentation import project_address
from envwright.system.installation import installed_commit

ANSWERS_FILE = ".envwright-answers.json"
TOOL = r"^[A-Za-z0-9-]+/[A-Za-z0-9_-][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9._/-]*$"
GITHUB = "https://github.com/"
ToolAddress = Annotated[Text, Field(pattern=TOOL, max_length=200)]


def default_tool() -> str:
    """The repository on GitHub and the commit that this tool was installed from, or else the declared source at the tag
    of its major version; empty if there is none."""
    installed = installed_commit()
    if installed is not None and installed[0].startswith(GITHUB):
        return f"{installed[0].removeprefix(GITHUB).removesuffix('.git').rstrip('/')}@{installed[1]}"
    address = project_address("Source").rstrip("/")
    major = __version__.partition(".")[0]
    return f"{address.removeprefix(GITHUB)}@v{major}" if address.startswith(GITHUB) else ""


@dataclass(frozen=True)
class Answers:
    """The choices of a team."""

    __pydantic_config__ = KEYS

    owner: Slug
    """The user or team of the Hub."""
    tool: ToolAddress
    """The repository of the tool on GitHub, and the tag that workflows follow."""
    maintainers: Unique[Owner] = ()
    visibility: Literal["PUBLIC", "PRIVATE"] = "PRIVATE"
    noxfile: Flag = True


@dataclass(frozen=True)
class Record:
    """The content of the answers file."""

    __pydantic_config__ = KEYS

    envwright: Text
    """The version that wrote it."""
    answers: Answers
    files: Mapping[str, Text] = field(default_factory=dict)
    """The text of each file as the tool wrote it: the base of merges."""


def read_record(root: Path) -> Record | None:
    """The answers file; `None` if there is none.

    Raises `DeclarationError` if it is not readable, or if a newer version of the tool wrote it.
    """
    path = root / ANSWERS_FILE
    if not path.exists() and not path.is_symlink():
        return None
    text = read_text(path, root)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"is not JSON: {error}") from None
    _refuse_newer(data)
    try:
        record: Record = adapter(Record).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _unreadable(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if outside := [name for name in record.files if not _is_inside(name)]:
        raise _unreadable(f"names a file outside of the repository: {outside[0]!r}")
    return record


def written_record(record: Record) -> str:
    """The text of the answers file."""
    answers: dict[str, Any] = {**vars(record.answers), "maintainers": list(record.answers.maintainers)}
    data = {"envwright": record.envwright, "answers": answers, "files": dict(sorted(record.files.items()))}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _refuse_newer(data: Any) -> None:
    """Raise `DeclarationError` for the file of a newer version, whose other keys may be unknown here."""
    declared = data.get("envwright") if isinstance(data, dict) else None
    try:
        newer = isinstance(declared, str) and Version(declared) > Version(__version__)
    except InvalidVersion:
        return
    if newer:
        message = f"was written by envwright {declared}, and this is envwright {__version__}"
        fix = f"install envwright {declared} or newer: {UPGRADE_TOOL}"
        raise DeclarationError([Problem(ANSWERS_FILE, None, message, "envwright", fix=fix)])


def _is_inside(name: str) -> bool:
    """Whether a name is a plain path below the root, and not in git's own folder."""
    parts = PurePosixPath(name).parts
    plain = bool(parts) and "/".join(parts) == name and not name.startswith("/")
    return (
        plain and not any(part == ".." or part.lower() == ".git" for part in parts) and not re.search(r"[\0\\]", name)
    )


def _unreadable(message: str) -> DeclarationError:
    fix = "restore it from git, or remove it and run envwright init, which keeps all files as they are"
    return DeclarationError([Problem(ANSWERS_FILE, None, message, fix=fix)])
