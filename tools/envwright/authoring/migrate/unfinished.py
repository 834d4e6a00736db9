"""Code that could not be migrated, marked for the author."""

from __future__ import annotations

from dataclasses import dataclass

MARK = "MIGRATE"


@dataclass(frozen=True)
class UnfinishedPlace:
    """Code that could not be moved, with the reason."""

    file: str
    line: int
    reason: str


def marked(reason: str, original: str, indent: str = "") -> str:
    """A comment with the reason and the original code."""
    lines = [f"# {MARK}: {reason} The original:", *(f"#     {line}" for line in original.strip().splitlines())]
    return "".join(f"{indent}{line}\n" for line in lines)


def unfinished_places(files: dict[str, str]) -> list[UnfinishedPlace]:
    """Every mark in files, with its reason."""
    return [
        UnfinishedPlace(name, number, line.partition(f"{MARK}: ")[2].removesuffix(" The original:").removesuffix('")'))
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if f"{MARK}: " in line
    ]
