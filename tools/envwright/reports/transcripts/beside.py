"""Files of transcripts beside a page, loaded when they are opened.

A page from disk may not fetch a file, but it may run a script. Each file is therefore one call with packed data, and is
read back only if it is nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from envwright.files.atomic_write import write_whole

FOLDER = "transcripts"
CALL = "envwrightTranscripts"
_FILE = re.compile(rf'{CALL}\("([A-Za-z0-9._-]+)","([A-Za-z0-9+/=]*)"\);\n?')


def transcripts_file(name: str) -> str:
    """The file of an environment's transcripts, relative to the report."""
    return f"{FOLDER}/{safe_key(name)}.js"


def conversation_address(name: str, transcript: str | None) -> str:
    """The address of an environment's transcript in the HTML report; empty without one."""
    return f"validate.html#/transcripts/{quote(name, safe='')}/{transcript}" if transcript else ""


def safe_key(name: str) -> str:
    """A name for files and calls; names of environments stay as they are."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "unnamed"


def script_of(key: str, content: str) -> str:
    """The text of a file. Raises `ValueError` if it would be more than a call with data."""
    text = f'{CALL}("{key}","{content}");\n'
    if not _FILE.fullmatch(text):
        raise ValueError(f"transcripts of {key!r} cannot be written as a script")
    return text


def content_of(script: str) -> str | None:
    """The packed data of a file; `None` if it is anything but a call with data."""
    found = _FILE.fullmatch(script)
    return found and found[2]


def copy_transcripts(sources: Mapping[str, Path], folder: Path) -> None:
    """Write the files of a merged report. `sources` has, by environment, the folder of the report that it came from."""
    held = ((name, read_transcripts(source, name)) for name, source in sources.items())
    write_transcripts(((name, content) for name, content in held if content is not None), folder)


def read_transcripts(folder: Path, name: str) -> str | None:
    """The packed transcripts of an environment beside a report; `None` if the file is missing or invalid."""
    try:
        return content_of((folder / transcripts_file(name)).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def write_transcripts(contents: Iterable[tuple[str, str]], folder: Path) -> None:
    """Write the packed transcripts of environments by name, and remove the files of earlier runs."""
    written = set()
    for name, content in contents:
        path = folder / transcripts_file(name)
        written.add(path.name)
        write_whole(path, script_of(safe_key(name), content))
    if (folder / FOLDER).is_dir():
        for old in (folder / FOLDER).glob("*.js"):
            if old.name not in written:
                old.unlink()
