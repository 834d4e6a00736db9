"""Reading rows from local files and folders, row by row, so that large files need little memory."""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from envwright.exit_codes import CommandError
from envwright.system.installation import command_with
from envwright.text.plain_data import foreign_json, parsed_json

DatasetRow = Mapping[str, Any]
NumberedRow = tuple[int, DatasetRow]
"""A row and its place in the split, from 1."""
LONGEST_CSV_FIELD = 16 * 2**20
"""Characters that one field of a CSV file may have; the library's own limit is 128 Ki."""
LONGEST_COLUMN_NAME = 8
"""The most words of a column's name."""
NAMES_COLUMNS = "Add a header, such as question,answer."
QUOTING = "Quote fields that contain separators or line breaks, and double the quotes in them."
SPLIT_WORDS = ("train", "training", "test", "testing", "validation", "valid", "val", "dev", "eval")
_SPLIT_NAMES = {"training": "train", "testing": "test", "valid": "validation", "val": "validation"}


class SourceProblem(CommandError):
    """A source could not be read; with the reason and a remedy."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}\n{remedy}")


@dataclass(frozen=True)
class DatasetSplit:
    """Rows of one split; each call of `rows` reads them from the beginning."""

    name: str
    rows: Callable[[], Iterator[DatasetRow]]


@dataclass(frozen=True)
class DatasetSource:
    """A dataset that can be read."""

    name: str
    splits: tuple[DatasetSplit, ...]
    revision: str = ""
    """The commit of a dataset of the Hub."""
    config: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    """The Hub's details, such as the licence."""


def numbered(split: DatasetSplit, most: int | None = None) -> Iterator[NumberedRow]:
    """Rows with their place in the split, from 1; at most `most`."""
    return islice(enumerate(split.rows(), start=1), most)


def open_local(path: Path, split: str = "") -> DatasetSource:
    """A file, or a folder with a file for each split.

    Raises `SourceProblem` if there is nothing to read.
    """
    if not path.exists():
        raise SourceProblem(f"{path} does not exist", "Name a file, a folder, or a dataset of the Hub as OWNER/NAME.")
    files = [path] if path.is_file() else _files_in(path)
    splits: dict[str, list[Path]] = {}
    for file in files:
        splits.setdefault(split_named_by(file, path), []).append(file)
    if split:
        if split not in splits:
            raise SourceProblem(f"{path} has no split {split}", f"It has {', '.join(splits)}.")
        splits = {split: splits[split]}
    return DatasetSource(
        str(path), tuple(DatasetSplit(name, partial(_rows, members)) for name, members in splits.items())
    )


def _files_in(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and _format_of(file) is not None)
    files = [file for file in files if not any(part.startswith(".") for part in file.relative_to(folder).parts)]
    if not files:
        raise SourceProblem(
            f"{folder} contains no readable file", f"Readable are {', '.join(sorted(_READERS))}, also with .gz."
        )
    data = [file for file in files if file.name not in ("dataset_info.json", "dataset_infos.json", "state.json")]
    return data or files


def split_named_by(file: Path, root: Path) -> str:
    """The split that a file's name or its folder's names; `train` if neither names one."""
    within = file.relative_to(root).parts if root.is_dir() else (file.name,)
    for part in reversed(within):
        words = re.split(r"[\W_]+", part.lower())
        for word in SPLIT_WORDS:
            if word in words:
                return _SPLIT_NAMES.get(word, word)
    return "train"


def _format_of(file: Path) -> str | None:
    suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() != ".gz"]
    return suffixes[-1] if suffixes and suffixes[-1] in _READERS else None


def _rows(files: Sequence[Path]) -> Iterator[DatasetRow]:
    for file in files:
        form = _format_of(file)
        if form is None:
            known = ", ".join(sorted(_READERS))
            raise SourceProblem(f"{file} has an unknown format", f"Supported are {known}, also with .gz.")
        yield from _READERS[form](file)


def _opened(file: Path) -> IO[str]:
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _json_lines(file: Path) -> Iterator[DatasetRow]:
    with _opened(file) as lines:
        for number, line in enumerate(_decoded(lines, file), start=1):
            if not line.strip():
                continue
            try:
                row = foreign_json(line)
            except ValueError as error:
                raise SourceProblem(
                    f"{file}:{number}: is not JSON: {error}", "Put one JSON object on each line."
                ) from None
            yield _as_row(row, f"{file}:{number}")


def _decoded(lines: IO[str], file: Path) -> Iterator[str]:
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise SourceProblem(f"{file}: is not UTF-8: {error}", "Save it as UTF-8.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise SourceProblem(f"{file}: cannot be read: {error}", "Check the file; it may be truncated.") from None


def _json(file: Path) -> Iterator[DatasetRow]:
    """A list of objects, an object with one list of objects in it, or lines of JSON under this name."""
    with _opened(file) as text:
        whole = "".join(_decoded(text, file))
    try:
        found = foreign_json(whole)
    except ValueError as error:
        if parsed_json(whole.strip().partition("\n")[0]) is None:
            place = f"{file}:{error.lineno}" if isinstance(error, json.JSONDecodeError) else file
            raise SourceProblem(f"{place}: is not JSON: {error}", "Correct the file there.") from None
        yield from _json_lines(file)
        return
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
        found = lists[0] if len(lists) == 1 else [found]
    for number, row in enumerate(found if isinstance(found, list) else [found], start=1):
        yield _as_row(row, f"{file}, entry {number}")


def _as_row(row: Any, place: str) -> DatasetRow:
    if not isinstance(row, dict):
        raise SourceProblem(f"{place}: is {type(row).__name__}, not an object", "Give each row names for its columns.")
    return row


def _separated(file: Path) -> Iterator[DatasetRow]:
    csv.field_size_limit(LONGEST_CSV_FIELD)
    with _opened(file) as text:
        lines = _decoded(text, file)
        first = next(lines, "")
        separator = "\t" if _format_of(file) == ".tsv" else max(",;\t|", key=first.count)
        reader = csv.DictReader(chain([first], lines), delimiter=separator, strict=True)
        begins = 1
        try:
            names = reader.fieldnames or ()
            no_header = SourceProblem(f"{file}:1: the first line is a row, not a header", NAMES_COLUMNS)
            if any(len(name.split()) > LONGEST_COLUMN_NAME for name in names):
                raise no_header
            if twice := [name for name, count in Counter(names).items() if name.strip() and count > 1]:
                raise SourceProblem(f"{file}:1: has the column {twice[0]!r} twice", "Give each column its own name.")
            begins = reader.line_num + 1
            for number, row in enumerate(reader):
                if number == 0 and any("?" in name and "?" in (row[name] or "") for name in names):
                    raise no_header  # below the header `Is it prime?` stand answers, below a question stand questions
                if "".join(row.pop(None, ())).strip():  # empty fields at the end lose nothing
                    raise SourceProblem(f"{file}:{reader.line_num}: has more fields than the header", QUOTING)
                yield row
                begins = reader.line_num + 1
        except csv.Error as error:
            raise SourceProblem(f"{file}:{begins}: is not CSV: {error}", QUOTING) from None


def _parquet(file: Path) -> Iterator[DatasetRow]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise SourceProblem(
            f"{file}: reading Parquet needs pyarrow",
            f"Run it with the package: {command_with('inspect', f'envwright inspect {file}')}, or pip install pyarrow.",
        ) from None
    try:
        with ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=256):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise SourceProblem(f"{file}: is not Parquet: {error}", "Check the file; it may be truncated.") from None


_READERS: Mapping[str, Callable[[Path], Iterator[DatasetRow]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _separated,
    ".tsv": _separated,
    ".parquet": _parquet,
}


def is_hub_name(name: str) -> bool:
    """Whether a name is a dataset of the Hub and no local file: OWNER/NAME, or a bare NAME without suffix."""
    if Path(name).exists() or name.startswith((".", "/", "~")) or Path(name).suffix.lower() in (*_READERS, ".gz"):
        return False
    return bool(re.fullmatch(r"[\w.-]+(?:/[\w.-]+)?", name))
