"""Results of evaluations as files: our own, v0's `results.jsonl`, v1's `traces.jsonl`.

Nothing is dropped silently. A line that cannot be read, or has no finite reward, is reported and
counts as a rollout without a reward. A line of another format, environment or digest is reported
too, and the whole file is refused, because it is not about this environment.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from envops.facts.observed import Facts
from envops.facts.results import EvaluationRow, LineProblem, MalformedRow, RowError, objects_of, row_of
from envops.models.foreign_rows import KnownEnvironment, UnreadableRow, row_of_episode, row_of_v0
from envops.text.visible_text import on_one_line

MOST_LINES_PRINTED = 20

Format = Literal["envops", "v0", "v1"]
FILES = ("results.jsonl", "traces.jsonl", "rollouts.jsonl")


class NoResults(Exception):
    """The file does not exist, or holds no result."""


@dataclass
class Imported:
    """The rows of a file, and its problems."""

    path: Path
    format: Format | None = None
    rows: list[EvaluationRow] = field(default_factory=list)
    """Including unreadable lines, as rows without a reward."""
    problems: list[LineProblem] = field(default_factory=list)
    refusals: list[LineProblem] = field(default_factory=list)
    """Why the file is not about this environment."""
    asked: int | None = None
    """The number of rollouts that the evaluation was to have, where the file has it."""


@dataclass(frozen=True)
class Expected:
    """The environment that the results must be of."""

    environment: str
    module: str
    digest: str
    facts: Facts


def import_results(path: Path, expected: Expected) -> Imported:
    """Read a file of results, or the one in a folder.

    Raises `NoResults` when there is none.
    """
    if path.is_dir():
        path = next((path / name for name in FILES if (path / name).is_file()), path / FILES[0])
    if not path.is_file():
        raise NoResults(
            f"{path} does not exist; expected results.jsonl (v0), traces.jsonl (v1) or our own rollouts.jsonl"
        )
    imported = Imported(path)
    reader = _Reader(imported, expected, _metadata_beside(path, imported))
    for number, raw, problem in objects_of(path):
        reader.take(number, raw, problem)
    if not imported.rows and not imported.refusals:
        raise NoResults(f"{path} contains no results")
    reader.compare_with_metadata()
    return imported


def _metadata_beside(path: Path, imported: Imported) -> Mapping[str, Any]:
    """v0's metadata.json; empty where there is none."""
    beside = path.with_name("metadata.json")
    if not beside.is_file():
        return {}
    try:
        metadata = json.loads(beside.read_bytes())
    except (OSError, ValueError) as error:
        imported.problems.append(LineProblem(0, f"{beside.name} cannot be read: {error}"))
        return {}
    return metadata if isinstance(metadata, dict) else {}


class _Reader:
    """Reads one line after the other."""

    def __init__(self, imported: Imported, expected: Expected, metadata: Mapping[str, Any]) -> None:
        self._imported = imported
        self._expected = expected
        self._metadata = metadata
        self._known = KnownEnvironment.of(expected.environment, expected.facts)
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._seen: dict[tuple[str, str, int], int] = {}
        if metadata.get("env_id") and not self._is_ours(str(metadata["env_id"])):
            said = f"metadata.json belongs to environment {metadata['env_id']!r}, not {expected.environment!r}"
            imported.refusals.append(LineProblem(0, said))

    def take(self, number: int, raw: Any, problem: str | None) -> None:
        found = None if problem else format_of(raw)
        if problem is None and found is None:
            problem = "is not a result of a known format"
        if problem is not None or found is None:
            self._unreadable(number, str(problem))
            return
        self._imported.format = self._imported.format or found
        if found != self._imported.format:
            said = f"has format {found}, the lines before have format {self._imported.format}"
            self._imported.refusals.append(LineProblem(number, said))
            return
        try:
            row = self._row(found, raw)
        except (MalformedRow, UnreadableRow) as error:
            self._unreadable(number, str(error))
            return
        self._check(number, raw, row)

    def _row(self, found: Format, raw: Mapping[str, Any]) -> EvaluationRow:
        if found == "envops":
            return row_of(raw)
        row = row_of_v0(raw, self._metadata, self._known) if found == "v0" else row_of_episode(raw, self._known)
        count = self._numbers[row.speaker, row.task_key]
        self._numbers[row.speaker, row.task_key] += 1
        return replace(row, rollout=count)

    def _check(self, number: int, raw: Mapping[str, Any], row: EvaluationRow) -> None:
        expected, refuse = self._expected, self._imported.refusals.append
        if not self._is_ours(row.environment):
            refuse(LineProblem(number, f"belongs to environment {row.environment!r}, not {expected.environment!r}"))
            return
        if row.digest is not None and row.digest != expected.digest:
            refuse(LineProblem(number, f"has digest {row.digest}, the package has {expected.digest}"))
            return
        if self._known.is_complete and row.task_key not in self._known.tasks:
            refuse(LineProblem(number, f"is about a task that this environment does not have (task {row.task})"))
            return
        first = self._seen.setdefault(row.identity, number)
        if first != number:
            who = f"rollout {row.rollout} of {row.speaker} on task {row.task}"
            said = f"{who} is a duplicate of line {first} and counts once"
            self._imported.problems.append(LineProblem(number, said))
            return
        if row.reward is None and row.error is None:
            said = _why_no_reward(raw)
            self._imported.problems.append(LineProblem(number, said))
            row = replace(row, error=RowError("environment", "MissingReward", said))
        self._imported.rows.append(row)

    def _unreadable(self, number: int, problem: str) -> None:
        """An unreadable line is a rollout without a reward."""
        self._imported.problems.append(LineProblem(number, problem))
        self._lost(f"line-{number}", RowError("infrastructure", "UnreadableLine", f"line {number} {problem}"))

    def _lost(self, key: str, error: RowError) -> None:
        generation = self._expected.facts.description.generation if self._expected.facts.description else "v1"
        speaker = next((row.policy for row in self._imported.rows), None)
        model = next((row.model for row in self._imported.rows), None)
        lost = EvaluationRow(self._expected.environment, None, generation, 0, key, 0, None, error=error)
        self._imported.rows.append(replace(lost, policy=speaker, model=model or self._metadata.get("model")))

    def _is_ours(self, name: str) -> bool:
        return plain_name(name) in {plain_name(self._expected.environment), plain_name(self._expected.module)}

    def compare_with_metadata(self) -> None:
        """Only metadata.json shows that a file was cut between two lines."""
        asked, each = self._metadata.get("num_examples"), self._metadata.get("rollouts_per_example")
        if not isinstance(asked, int) or not isinstance(each, int) or asked < 1:
            if not self._metadata and self._imported.format == "v0":
                said = "no metadata.json beside it: its environment and model are unknown"
                self._imported.problems.append(LineProblem(0, said))
            return
        self._imported.asked = asked * each
        there = len(self._imported.rows)
        if there != asked * each:
            said = f"metadata.json declares {asked} × {each} = {asked * each} rollouts, the file has {there}"
            self._imported.problems.append(LineProblem(0, said))
        for position in range(there, asked * each):
            self._lost(f"missing-{position}", RowError("infrastructure", "MissingRollout", "is not in the file"))


def format_of(raw: Any) -> Format | None:
    """The format of a line; `None` where it is unknown."""
    if not isinstance(raw, dict):
        return None
    if "task_key" in raw and "version" in raw:
        return "envops"
    if "traces" in raw or ("nodes" in raw and "rewards" in raw):
        return "v1"
    return "v0" if "example_id" in raw else None


def plain_name(name: str) -> str:
    """A name without owner, version, environment class and spelling: `acme/agentic+gsm-8k@1` is `gsm_8k`."""
    return name.partition("@")[0].rpartition("/")[2].rpartition("+")[2].replace("-", "_").replace(".", "_").lower()


def _why_no_reward(raw: Mapping[str, Any]) -> str:
    if "reward" in raw and raw["reward"] is not None:
        return f"reward is {raw['reward']!r}, which is not a finite number: it counts as missing"
    return "has neither a reward nor an error: it counts as missing"


def print_problems(path: Path, problems: Sequence[LineProblem], what: str) -> None:
    """Report the problems of a file on standard error."""
    if not problems:
        return
    print(f"{path}: {len(problems)} problem{'s' if len(problems) > 1 else ''}; {what}", file=sys.stderr)
    for problem in problems[:MOST_LINES_PRINTED]:
        print(f"  {on_one_line(str(problem))[:500]}", file=sys.stderr)
    if len(problems) > MOST_LINES_PRINTED:
        lines = ", ".join(str(problem.line) for problem in problems[MOST_LINES_PRINTED:])
        print(f"  and lines {lines}", file=sys.stderr)
