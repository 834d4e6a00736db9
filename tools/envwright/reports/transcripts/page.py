"""The page of a file's transcripts. A server and a static page show the same one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from envwright import __version__
from envwright.files.atomic_write import write_whole
from envwright.reports.html.embedding import code, policy
from envwright.reports.html.page import STYLES, TRANSCRIPTS, joined, templates
from envwright.reports.transcripts.beside import safe_key, script_of

TEMPLATE = "transcripts.html.j2"
SCRIPTS = ("elements.js", "shared.js", "findings.js", *TRANSCRIPTS, "view.js")
MOST_PROBLEMS = 100
INDEX = "index"


class ReadProblem(Protocol):
    """A line that could not be read."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def place(self) -> str: ...
    @property
    def message(self) -> str: ...


class TranscriptSource(Protocol):
    """Rollouts in parts, made on request."""

    @property
    def problems(self) -> Sequence[ReadProblem]: ...
    @property
    def files(self) -> Sequence[str]: ...
    @property
    def parts(self) -> int: ...
    @property
    def count(self) -> int: ...

    def index(self) -> str: ...
    def part(self, number: int) -> str: ...


def page_of_source(source: TranscriptSource, title: str, beside: str, *, one_file: bool = False) -> Iterator[str]:
    """The page in parts. It loads the list and the conversations from `beside`, unless it holds them itself."""
    script = joined("assets", SCRIPTS)
    return (
        templates("envwright.reports.html")
        .get_template(TEMPLATE)
        .generate(
            policy=policy(script, files_beside=not one_file),
            style=code(joined("assets", STYLES)),
            script=code(script),
            title=title,
            beside=beside,
            facts=_facts(source),
            problems=source.problems,
            most=MOST_PROBLEMS,
            held=_held(source) if one_file else (),
            tool=__version__,
        )
    )


def _facts(source: TranscriptSource) -> Iterator[str]:
    yield f"{source.count:,} rollout{'s' if source.count != 1 else ''}"
    yield source.files[0] if len(source.files) == 1 else f"{len(source.files)} files"


def keys_of(source: TranscriptSource) -> list[str]:
    """The names of the files that a page loads: the list, then the parts."""
    return [INDEX, *(part_key(number) for number in range(source.parts))]


def part_key(number: int) -> str:
    """The name of a part's file."""
    return f"part-{number}"


def content_of_key(source: TranscriptSource, key: str) -> str | None:
    """The packed data of one of these files; `None` for any other name."""
    if key == INDEX:
        return source.index()
    number = key.removeprefix("part-")
    if not number.isdecimal() or key != part_key(int(number)) or int(number) >= source.parts:
        return None
    return source.part(int(number))


def _held(source: TranscriptSource) -> Iterable[tuple[str, str]]:
    return ((key, content_of_key(source, key) or "") for key in keys_of(source))


def write_static_page(source: TranscriptSource, title: str, page: Path, *, one_file: bool = False) -> int:
    """Write a page, and unless it is one file the files that it loads; returns the number of files."""
    folder = page.with_name(f"{safe_key(page.stem)}-transcripts")
    if not one_file:
        for key in keys_of(source):
            write_whole(folder / f"{key}.js", script_of(key, content_of_key(source, key) or ""))
    write_whole(page, page_of_source(source, title, f"{folder.name}/", one_file=one_file))
    return 1 if one_file else 1 + len(keys_of(source))
