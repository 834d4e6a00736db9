"""The README's headings and what stands below them, without rendering any of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPECTED_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "task": ("task", "overview", "description", "about", "problem", "environment", "what"),
    "format": ("format", "input", "output", "prompt", "answer", "reply", "response", "protocol"),
    "reward": ("reward", "scor", "rubric", "grading", "metric"),
    "usage": ("usage", "using", "use", "quick", "run", "getting started", "how to", "example", "install", "evaluat"),
}
"""Section → beginnings of words, any of which in a heading makes it that section."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)[ \t]*$")


@dataclass(frozen=True)
class Section:
    """A heading and the text up to the next heading."""

    title: str
    level: int
    line: int
    text: str


@lru_cache(maxsize=8)
def sections(readme: str) -> tuple[Section, ...]:
    """Every section of a Markdown text; headings inside of code fences are none."""
    lines = readme.splitlines()
    headings = list(_headings(lines))
    found = []
    for index, (title, level, line, start) in enumerate(headings):
        end = headings[index + 1][2] if index + 1 < len(headings) else len(lines)
        found.append(Section(title, level, line + 1, "\n".join(lines[start:end])))
    return tuple(found)


def missing_sections(readme: str) -> tuple[str, ...]:
    """Which of the expected sections no heading announces."""
    found = sections(readme)
    if [section.level for section in found].count(1) == 1 and found[0].level == 1:
        found = found[1:]  # the document's own title announces nothing
    titles = [section.title for section in found]
    return tuple(
        name for name, words in EXPECTED_SECTIONS.items() if not any(_announces(title, words) for title in titles)
    )


def text_about_rewards(readme: str) -> str:
    """The text below the headings on rewards, deeper headings included."""
    parts = []
    inside: int | None = None
    for section in sections(readme):
        if inside is not None and section.level <= inside:
            inside = None
        if inside is None and _announces(section.title, EXPECTED_SECTIONS["reward"]):
            inside = section.level
        if inside is not None:
            parts.append(f"{section.title}\n{section.text}")
    return "\n".join(parts)


def names(text: str, function: str) -> bool:
    """Whether a text names a function, be it `as_code` or as words."""
    words = [re.escape(word) for word in re.split(r"[_\W]+", function) if word]
    return bool(words) and re.search(r"(?<!\w)" + r"[_\s-]+".join(words) + r"(?!\w)", text, re.IGNORECASE) is not None


def _announces(title: str, beginnings: tuple[str, ...]) -> bool:
    return any(re.search(rf"\b{beginning}", title, re.IGNORECASE) for beginning in beginnings)


def _headings(lines: list[str]) -> list[tuple[str, int, int, int]]:
    """Title, level, index of the heading's line, index of the first line below it."""
    found = []
    fence: str | None = None
    for index, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark:
            fence = None if fence and mark[1].startswith(fence) else fence or mark[1]
            continue
        if fence:
            continue
        heading = _HEADING.match(line)
        if heading:
            found.append((heading[2], len(heading[1]), index, index + 1))
        elif index and _UNDERLINE.match(line) and re.match(r" {0,3}[^\s#>|*+-]", lines[index - 1]):
            found.append((lines[index - 1].strip(), 1 if "=" in line else 2, index - 1, index + 1))
    return found
