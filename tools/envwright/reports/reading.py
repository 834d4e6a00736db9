"""reports/validate.json read back, for merging the reports of a divided run and showing them again.

A missing report never counts as a pass: its environments and runs are unfinished, and the
merged verdict is inconclusive at best.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright.declarations.problem import DeclarationError, Problem
from envwright.facts.observed import Failure, Place, Signer, StartMode
from envwright.rules.engine import Finding
from envwright.rules.evidence import Evidence
from envwright.rules.result import EnvironmentResult, ShardOfRun, ValidationResult
from envwright.rules.settings import SetSeverity
from envwright.rules.verdict import worst

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from envwright.rules.engine import Verdict

SAME = ("version", "tool", "gates", "endpoint")
"""The data in which reports of one run agree."""


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


def merged(
    reports: Mapping[str, dict[str, Any]], expected: Iterable[str] = (), expected_runs: Iterable[str] = ()
) -> dict[str, Any]:
    """One report of all reports, by file. `expected` are environments that had to be proved, and `expected_runs`
    training runs that had to be judged, if the caller knows them.

    Raises `DeclarationError` when they are not reports of the same run: made by different versions,
    for different gates, from different divisions, or with an environment in two of them.
    """
    problems = [*_disagreements(reports), *_repeated(reports)]
    if problems:
        raise DeclarationError(problems)
    parts = list(reports.values())
    environments = sorted((one for part in parts for one in part["environments"]), key=lambda one: str(one["name"]))
    wanted = {*expected, *(name for part in parts for name in _wanted(part))}
    runs = {name for part in parts for name in part.get("runs", ())}
    wrong = _distinct(problem for part in parts for problem in part["problems"])
    unjudged = () if wrong else sorted({*expected_runs} - runs)  # a failing run is one of the problems
    missing = [*sorted(wanted - {one["name"] for one in environments}), *(f"run {name}" for name in unjudged)]
    verdicts: list[Verdict] = [one["verdict"] for one in (*parts, *environments)]
    if missing:
        verdicts.append("inconclusive")
    return {
        **{key: parts[0][key] for key in SAME},
        "verdict": worst(verdicts),
        "interrupted": bool(missing) or any(part["interrupted"] for part in parts),
        "unfinished": missing,
        "seconds": max(float(part["seconds"]) for part in parts),
        "shard": None,
        "runs": sorted(runs),
        "rules": parts[0].get("rules", []),
        "problems": wrong,
        "environments": environments,
    }


def current(reports: Sequence[dict[str, Any]], digests: Mapping[str, str]) -> dict[str, Any]:
    """One report from those of several runs, the latest last: of each environment the latest that is of its digest.

    Reports of another version or for other gates than the latest are left out, and so are results of variants.
    Environments of none are unfinished.
    """
    latest = reports[-1]
    alike = [part for part in reports if all(part[key] == latest[key] for key in SAME)]
    every = [one for part in alike for one in part["environments"] if one.get("env_args") is None]
    found = {one["name"]: one for one in every if one["digest"] and one["digest"] == digests.get(one["name"])}
    missing = sorted(digests.keys() - found.keys())
    verdicts: list[Verdict] = [one["verdict"] for one in found.values()]
    return {
        **latest,
        "verdict": worst([*verdicts, "inconclusive"] if missing else verdicts),
        "interrupted": False,
        "unfinished": missing,
        "shard": None,
        "runs": [],
        "problems": [],
        "environments": [found[name] for name in sorted(found)],
    }


def missing_shards(parts: Sequence[dict[str, Any]]) -> list[int]:
    """Numbers of the shards without a report."""
    shares = [share for part in parts if (share := share_of(part))]
    there = {share.index for share in shares}
    return [index for index in range(1, max((share.of for share in shares), default=0) + 1) if index not in there]


def _wanted(part: dict[str, Any]) -> set[str]:
    share = share_of(part)
    return {*part["unfinished"], *(share.environments if share else ())}


def _disagreements(reports: Mapping[str, dict[str, Any]]) -> Iterable[Problem]:
    first_file, first = next(iter(reports.items()))
    for file, part in reports.items():
        for key in SAME:
            if part[key] != first[key]:
                message = f"is from another run than {first_file}"
                yield Problem(file, None, message, key, str(part[key]), str(first[key]))
        mine, theirs = share_of(part), share_of(first)
        divided = (mine and (mine.of, mine.environments), theirs and (theirs.of, theirs.environments))
        if divided[0] != divided[1] and not part["problems"] and not first["problems"]:
            yield Problem(file, None, f"belongs to a different split than {first_file}", "shard")


def _repeated(reports: Mapping[str, dict[str, Any]]) -> Iterable[Problem]:
    first: dict[str, str] = {}
    for file, part in reports.items():
        for one in part["environments"]:
            known = first.setdefault(one["name"], file)
            if known != file:
                message = f"has an environment that is also in {known}"
                yield Problem(file, None, message, found=one["name"], fix="merge the reports of one run only")


def _distinct(problems: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({tuple(sorted(problem.items(), key=str)): problem for problem in problems}.values())
