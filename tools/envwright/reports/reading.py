"""reports/validate.json read back, for merging and showing again."""

from __future__ import annotations

import json
import posixpath
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright.declarations.problem import DeclarationError, Problem
from envwright.facts.observed import Failure, Place, Signer, StartMode
from envwright.rules.engine import Finding
from envwright.rules.evidence import Evidence
from envwright.rules.result import EnvironmentResult, ShardOfRun, ValidationResult
from envwright.rules.settings import SetSeverity

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def read_report(path: Path) -> dict[str, Any]:
    """A report as it was written.

    Raises `DeclarationError` when it cannot be read or is not a report.
    """
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        message = "is not a readable report"
        raise DeclarationError([Problem(str(path), None, message, found=str(error)[:200])]) from None
    mistake = next(iter(_validator().iter_errors(data)), None)
    if mistake is not None:
        where = ".".join(map(str, mistake.absolute_path))
        message = "is not a report of envwright validate"
        raise DeclarationError([Problem(str(path), None, message, where, found=mistake.message[:200])])
    assert isinstance(data, dict)
    return data


@cache
def _validator() -> Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(Path(__file__).with_name("validate.schema.json").read_bytes()))


def result_of(data: dict[str, Any]) -> ValidationResult:
    """A report's result without the numbers of distributions, mutants and searches, which stay in the data."""
    return ValidationResult(
        verdict=data["verdict"],
        environments=tuple(map(_environment, data["environments"])),
        problems=tuple(Problem(**problem) for problem in data["problems"]),
        interrupted=data["interrupted"],
        unfinished=tuple(data["unfinished"]),
        seconds=float(data["seconds"]),
        tool_version=data["tool"],
        gates=tuple(data["gates"]),
        endpoint=data["endpoint"],
        split=data.get("split", "train"),
        shard=share_of(data),
        runs=tuple(data.get("runs", ())),
        rules=tuple(SetSeverity(**each) for each in data.get("rules", ())),
    )


def share_of(data: dict[str, Any]) -> ShardOfRun | None:
    """The part of a divided run that a report covers."""
    shard = data.get("shard")
    return shard and ShardOfRun(shard["index"], shard["of"], tuple(shard["environments"]))


def _environment(data: dict[str, Any]) -> EnvironmentResult:
    folder = data["folder"]
    kept = ("name", "folder", "verdict", "generation", "digest", "hub_hash", "cached", "gates", "reasons")
    counts = ("tasks_count", "scores_count", "rollouts_count")
    return EnvironmentResult(
        **{key: data[key] for key in (*kept, *counts)},
        version=data["package_version"],
        seconds=float(data["seconds"]),
        stage_seconds=data["stage_seconds"],
        findings=tuple(finding_of(folder, one) for one in data["findings"]),
        transcript_ids=frozenset(filter(None, (one.get("transcript") for one in data["findings"]))),
        failures={one["stage"]: _failure(folder, one) for one in data["failures"]},
        policies=tuple(data["policies"]),
        started=StartMode(**data["worker"]) if data.get("worker") else None,
        brief=data.get("brief", False),
        judge=data.get("judge"),
        observed_by=Signer(**data["observed_by"]) if data.get("observed_by") else None,
        env_args=data.get("env_args"),
        by_former_rules=data.get("by_former_rules"),
    )


def finding_of(folder: str, data: dict[str, Any]) -> Finding:
    """One finding of an environment in this folder."""
    kept = ("rule", "gate", "severity", "message", "fix", "inconclusive", "bug")
    place = _place(folder, data)
    return Finding(
        **{key: data[key] for key in kept},
        evidence=Evidence.read(data["evidence"]),
        place=place,
        ignored=data["reason"] if data["ignored"] else None,
        waiting=tuple(data.get("waiting", ())),
    )


def _failure(folder: str, data: dict[str, Any]) -> Failure:
    return Failure(data["kind"], data["type"], data["message"], _place(folder, data), data["traceback"])


def _place(folder: str, data: dict[str, Any]) -> Place | None:
    file = data["file"]
    if file is None:
        return None
    return Place(file if posixpath.isabs(file) else posixpath.relpath(file, folder), data["line"])
