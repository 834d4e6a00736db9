"""Whether a folder of safetensors is whole: headers and index against the sizes of the files, without loading a tensor.

The format is that of safetensors 0.8.0: 8 bytes with the length of the header, the header in JSON, the tensors without
gaps (safetensors/src/tensor.rs). Parts and their index are as transformers and prime-rl write them
(prime_rl/utils/weights.py@559b447): the index is written last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
WHOLE_MODEL = "model.safetensors"
ADAPTER = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
MOST_HEADER = 100_000_000
"""Bytes; safetensors refuses a longer header."""


@dataclass(frozen=True)
class IncompleteFile:
    """A file that is missing or cut off."""

    path: Path
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def incomplete_files(folder: Path, written_last: str = "") -> Iterator[IncompleteFile]:
    """The files of a model or an adapter that are missing or cut off.

    `written_last` is a file that the trainer writes when all others are there; empty if it has none.
    """
    if written_last and not (folder / written_last).is_file():
        yield IncompleteFile(folder / written_last, "is missing; the trainer writes it last")
    if (folder / ADAPTER_CONFIG).exists() or (folder / ADAPTER).exists():
        yield from _json_problem(folder / ADAPTER_CONFIG)
        yield from _of_weights(folder / ADAPTER)
        return
    if (folder / "config.json").exists():
        yield from _json_problem(folder / "config.json")
    if (folder / INDEX).exists() or len(list(folder.glob("model-*.safetensors"))):
        yield from _of_parts(folder)
    else:
        yield from _of_weights(folder / WHOLE_MODEL)


def _json_problem(path: Path) -> Iterator[IncompleteFile]:
    try:
        if not isinstance(json.loads(path.read_bytes()), dict):
            yield IncompleteFile(path, "is not a JSON object")
    except FileNotFoundError:
        yield IncompleteFile(path, "is missing")
    except (OSError, ValueError) as error:
        yield IncompleteFile(path, f"cannot be read: {error}")


def _of_weights(path: Path) -> Iterator[IncompleteFile]:
    try:
        read_header(path)
    except ValueError as error:
        yield IncompleteFile(path, str(error))


def _of_parts(folder: Path) -> Iterator[IncompleteFile]:
    """The index, and every part that it names with the tensors that it expects there."""
    path = folder / INDEX
    if problems := tuple(_json_problem(path)):
        yield from problems
        return
    parts = json.loads(path.read_bytes()).get("weight_map")
    if not isinstance(parts, dict) or not parts or not all(isinstance(part, str) for part in parts.values()):
        yield IncompleteFile(path, "has no weight_map from tensors to files")
        return
    for part in sorted(set(parts.values())):
        try:
            there = read_header(folder / part)
        except ValueError as error:
            yield IncompleteFile(folder / part, str(error))
            continue
        if lacking := sorted(name for name, file in parts.items() if file == part and name not in there):
            yield IncompleteFile(folder / part, f"lacks {len(lacking)} tensors of {INDEX}, the first is {lacking[0]}")


def read_header(path: Path) -> Mapping[str, Any]:
    """The tensors of a safetensors file by name.

    Raises `ValueError` if the file is missing, cut off, longer than its header declares, or not in this format.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or (length <= MOST_HEADER and size < 8 + length):
                raise ValueError(f"is cut off in its header, after {size:,} bytes")
            if length > MOST_HEADER:
                raise ValueError(f"is not a safetensors file: its header would have {length:,} bytes")
            header = json.loads(file.read(length))
    except FileNotFoundError:
        raise ValueError("is missing") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError("is not a safetensors file: its header is not JSON") from None
    tensors = (
        {name: each for name, each in header.items() if name != "__metadata__"} if isinstance(header, dict) else {}
    )
    if not tensors:
        raise ValueError("has no tensors")
    declared = 8 + length + _bytes_of(tensors)
    if size != declared:
        raise ValueError(f"is {'cut off' if size < declared else 'too long'}: {size:,} of {declared:,} bytes")
    return tensors


def _bytes_of(tensors: Mapping[str, Any]) -> int:
    """The bytes of all tensors, which follow each other without gaps. Raises `ValueError`."""
    try:
        places = sorted((int(each["data_offsets"][0]), int(each["data_offsets"][1])) for each in tensors.values())
    except (TypeError, KeyError, IndexError, ValueError):
        raise ValueError("is not a safetensors file: a tensor has no data_offsets") from None
    end = 0
    for start, stop in places:
        if start != end or stop < start:
            raise ValueError("is not a safetensors file: its tensors overlap or have gaps")
        end = stop
    return end
