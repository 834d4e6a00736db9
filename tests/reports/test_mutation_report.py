"""reports/mutation.json holds to mutation-testing-report-schema 2.0."""

from __future__ import annotations

import json
from typing import Any

import pytest
from envops.facts.mutation import CoveredSource, Mutant, Mutation
from envops.reports.json_report import environment_data
from envops.reports.mutation_report import mutation_report_parts
from envops.rules.result import EnvironmentResult
from jsonschema import Draft7Validator

POSITION = {
    "type": "object",
    "required": ["line", "column"],
    "properties": {"line": {"type": "integer", "minimum": 1}, "column": {"type": "integer", "minimum": 1}},
}
STATUSES = ["Killed", "Survived", "NoCoverage", "CompileError", "RuntimeError", "Timeout", "Ignored", "Pending"]
MUTANT = {
    "type": "object",
    "required": ["id", "mutatorName", "location", "status"],
    "properties": {
        **{name: {"type": "string"} for name in ("id", "mutatorName", "description", "replacement", "statusReason")},
        "location": {
            "type": "object",
            "required": ["start", "end"],
            "properties": {"start": POSITION, "end": POSITION},
        },
        "status": {"enum": STATUSES},
    },
}
PERCENT = {"type": "integer", "minimum": 0, "maximum": 100}
FILE = {
    "type": "object",
    "required": ["language", "source", "mutants"],
    "properties": {
        "language": {"type": "string"},
        "source": {"type": "string"},
        "mutants": {"type": "array", "uniqueItems": True, "items": MUTANT},
    },
}
STRUCTURE = {
    "type": "object",
    "required": ["schemaVersion", "thresholds", "files"],
    "properties": {
        "schemaVersion": {"type": "string", "pattern": r"^([1-2]\d*|0)(\.(([1-9]\d*)|0)){0,2}$"},
        "thresholds": {
            "type": "object",
            "required": ["high", "low"],
            "properties": {"high": PERCENT, "low": PERCENT},
        },
        "framework": {"type": "object", "required": ["name"]},
        "files": {"type": "object", "additionalProperties": FILE},
    },
}
"""What the published schema requires of the parts that are written."""
TEXT = "def f(x):\n    return x == 1  # </script>\n"


def mutant(outcome: Any, **changes: Any) -> Mutant:
    return Mutant(f"a.f:flip:{outcome}", "flip comparison", "f", "a_b.py", 2, "@@", outcome, **changes)


def written(*mutants: Mutant, text: str = TEXT) -> dict[str, Any]:
    source = CoveredSource("a_b.py", text, {"cases": (2,)})
    mutation = Mutation(len(mutants), 0, "all", 60, 4.0, mutants, sources=(source,))
    result = EnvironmentResult("a-b", "environments/a_b", "pass", module_path="src/a_b", mutation=mutation)
    other = EnvironmentResult("c", "environments/c", "pass")
    report = json.loads("".join(mutation_report_parts("0.1.0", [environment_data(other), environment_data(result)])))
    Draft7Validator(STRUCTURE).validate(report)
    return report


def test_mutation_report_places_mutants_in_files_of_the_repository() -> None:
    report = written(mutant("survived", start=(2, 14), end=(2, 16), replacement="!="))
    file = report["files"]["environments/a_b/src/a_b.py"]
    assert file["language"] == "python"
    assert file["source"] == TEXT
    [shown] = file["mutants"]
    assert shown["location"] == {"start": {"line": 2, "column": 14}, "end": {"line": 2, "column": 16}}
    assert shown["replacement"] == "!="
    assert shown["status"] == "Survived"


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("killed", "Killed"),
        ("timeout", "Timeout"),
        ("survived", "Survived"),
        ("undecided", "Pending"),
        ("equivalent", "Ignored"),
        ("skipped", "Ignored"),
    ],
)
def test_mutation_report_status_of_each_outcome(outcome: str, status: str) -> None:
    [shown] = written(mutant(outcome, by="case 'a'"))["files"]["environments/a_b/src/a_b.py"]["mutants"]
    assert shown["status"] == status
    assert shown["statusReason"]


def test_mutation_report_marks_the_line_of_a_mutant_without_place() -> None:
    [shown] = written(mutant("killed"))["files"]["environments/a_b/src/a_b.py"]["mutants"]
    assert shown["location"] == {"start": {"line": 2, "column": 1}, "end": {"line": 2, "column": 31}}
    assert "replacement" not in shown


def test_mutation_report_without_known_source_has_no_files() -> None:
    assert written(mutant("killed"), text="")["files"] == {}
