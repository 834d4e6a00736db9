"""GitHub workflow commands that put findings beside the changed lines of a pull request."""

from __future__ import annotations

import posixpath
from itertools import chain
from typing import TYPE_CHECKING

from envwright.reports.transcripts.beside import conversation_address
from envwright.rules.result import (
    FINDING_KINDS,
    EnvironmentResult,
    FindingKind,
    ValidationResult,
    finding_kind,
    path_in_repository,
)
from envwright.text.visible_text import shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envwright.rules.engine import Finding

MOST_OF_A_KIND = 10
"""GitHub shows ten errors, ten warnings and ten notices of one step and drops the rest."""
LONGEST_MESSAGE = 2_000
_COMMANDS: dict[FindingKind, str] = {
    "error": "error",
    "bug": "error",
    "inconclusive": "warning",
    "warning": "warning",
    "advice": "notice",
}


def wants_annotations(environ: Mapping[str, str]) -> bool:
    """Whether workflow commands are read here."""
    return environ.get("GITHUB_ACTIONS") == "true"


def render_annotations(result: ValidationResult) -> tuple[str, ...]:
    """One command per line, most important first, up to GitHub's limit."""
    commands = [workflow_command("error", one.file, one.line, "declaration", str(one)) for one in result.problems]
    of_standing: dict[FindingKind, list[str]] = {kind: [] for kind in FINDING_KINDS}
    of_failures: list[str] = []
    for environment in result.environments:
        for finding in environment.findings:
            found = of_standing[kind := finding_kind(finding)]
            if kind in _COMMANDS and len(found) < MOST_OF_A_KIND:
                found.append(_annotation(environment, finding, _COMMANDS[kind]))
        of_failures += [
            workflow_command("error", None, None, f"{environment.name}: {stage}", f"{broke.type}: {broke.message}")
            for stage, broke in environment.failures.items()
        ]
    return tuple(first_of_each_kind([*commands, *chain(*of_standing.values()), *of_failures]))


def _annotation(environment: EnvironmentResult, finding: Finding, command: str) -> str:
    file = path_in_repository(environment, finding.place)
    line = finding.place.line if finding.place else None
    conversation = conversation_address(environment, finding)
    read = f"\nConversation: {conversation}" if conversation else ""
    message = f"{finding.message}\nFix: {finding.fix}{read}"
    return workflow_command(command, file, line, f"{finding.rule} {environment.name}", message)


def workflow_command(command: str, file: str | None, line: int | None, title: str, message: str) -> str:
    """A command that GitHub shows beside a line of the change; its content stays text."""
    properties = [f"title={_property(title)}"]
    if file and not posixpath.isabs(file) and not file.startswith("../"):
        properties.insert(0, f"file={_property(file)}")
        if line is not None:
            properties.insert(1, f"line={line}")
    return f"::{command} {','.join(properties)}::{_data(shortened(message, LONGEST_MESSAGE))}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\n", "%0A").replace("##[", "##%5B")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def first_of_each_kind(commands: Iterable[str]) -> list[str]:
    """The findings that GitHub shows, up to its limit for each kind."""
    shown: list[str] = []
    counts: dict[str, int] = {}
    for command in commands:
        kind = command.split(" ", 1)[0]
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= MOST_OF_A_KIND:
            shown.append(command)
    return shown
