"""Rules of the README and the cases, which readers and reviewers use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from envwright.facts.observed import Place
from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import Evidence
from envwright.statistics.declared_range import is_reward

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXPECTED_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "task": ("task", "overview", "description", "about", "problem", "environment", "what"),
    "format": ("format", "input", "output", "prompt", "answer", "reply", "response", "protocol"),
    "reward": ("reward", "scor", "rubric", "grading", "metric"),
    "usage": ("usage", "using", "use", "quick", "run", "getting started", "how to", "example", "install", "evaluat"),
}
"""Section → beginnings of words that identify its heading."""

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
    """Every section of a Markdown text; headings inside code fences do not count."""
    lines = readme.splitlines()
    headings = list(_headings(lines))
    found = []
    for index, (title, level, line, start) in enumerate(headings):
        end = headings[index + 1][2] if index + 1 < len(headings) else len(lines)
        found.append(Section(title, level, line + 1, "\n".join(lines[start:end])))
    return tuple(found)


def missing_sections(readme: str) -> tuple[str, ...]:
    """The expected sections without a heading."""
    found = sections(readme)
    if [section.level for section in found].count(1) == 1 and found[0].level == 1:
        found = found[1:]  # the document's own title is not a section
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
    """Whether a text names a function, `as_code` or in words."""
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


@rule("SCH020", gate="schema", severity="warning", publishing=True)
def readme_is_missing(subject: Subject) -> Iterator[Found]:
    """The README is missing or empty.

    What: README.md exists in the environment's folder and has text.
    Why: It is the environment's page on the Hub.
    Fix: Write README.md with the sections task, format, reward and usage. `envwright new` writes an example.
    """
    readme = subject.package.readme
    if readme is None or not readme.strip():
        yield Found("README.md is missing" if readme is None else "README.md is empty", Evidence(), Place("README.md"))


@rule("SCH021", gate="schema", severity="warning", publishing=True)
def readme_lacks_sections(subject: Subject) -> Iterator[Found]:
    """The README lacks a section on task, format, reward or usage.

    What: Headings introduce the task, the input and output format, the reward, and the usage.
    Why: People need these four to decide on an environment without reading its code.
    Fix: Add the missing headings with their text.
    """
    readme = subject.package.readme
    if readme is None or not readme.strip():
        return
    missing = missing_sections(readme)
    if missing:
        yield Found(
            f"README.md has no section on {', '.join(missing)}",
            Evidence(
                details={
                    "missing": list(missing),
                    "accepted": {name: list(EXPECTED_SECTIONS[name]) for name in missing},
                }
            ),
            Place("README.md"),
        )


@rule("SCH022", gate="schema", severity="warning")
def readme_does_not_name_every_reward(subject: Subject) -> Iterator[Found]:
    """The README's section on the reward does not name every reward function.

    What: Each function with a weight is named, as code or in words, below a heading on rewards.
    Why: A reward function that readers do not know about is not reviewed.
    Fix: List each reward function with its weight and its purpose.
    """
    text = text_about_rewards(subject.package.readme or "")
    rewards = [function.name for function in subject.functions if is_reward(function)]
    unnamed = [name for name in dict.fromkeys(rewards) if not names(text, name)]
    if text and unnamed:
        yield Found(
            f"the README does not name {', '.join(unnamed)} in its section on the reward",
            Evidence(details={"missing": unnamed, "functions": {name: names(text, name) for name in rewards}}),
            Place("README.md"),
        )


@rule("SCH023", gate="schema", severity="warning")
def cases_are_missing(subject: Subject) -> Iterator[Found]:
    """There are no reward unit tests in tests/cases.yaml.

    What: tests/cases.yaml has at least one case.
    Why: Cases define right and wrong. Without them a changed reward goes unnoticed.
    Fix: Write tests/cases.yaml: a reply, and the reward or the scores that it must earn.
    """
    if not subject.package.cases:
        yield Found("tests/cases.yaml is missing or has no case", Evidence(), Place("tests/cases.yaml"))
