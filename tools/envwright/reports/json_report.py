"""reports/validate.json: the contract that other tools read. Its schema is validate.schema.json."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from envwright.facts.observed import Place
from envwright.reports.distribution import distribution_data
from envwright.reports.transcripts.beside import transcripts_file
from envwright.rules.evidence import reply_text
from envwright.rules.result import (
    EnvironmentResult,
    ValidationResult,
    path_in_repository,
    transcript_of,
    weightiest_first,
)
from envwright.text.plain_data import plain_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from envwright.declarations.problem import Problem
    from envwright.facts.observed import Failure
    from envwright.facts.recordings import RecordingFacts
    from envwright.facts.search import Search
    from envwright.rules.engine import Finding
    from envwright.rules.profiles import RewardProfile
    from envwright.statistics.relations import RewardBySize

FORMAT_VERSION = 1
"""The version of the format. It rises when a key changes its meaning or is removed; new keys do not raise it."""

_NUMBERS = re.compile(r"\[\n\s+([^\[\]{}\"]*?)\n\s*\]")
"""A list of numbers over many lines. Text in JSON has no line breaks, so it never matches."""


def render_json(result: ValidationResult) -> str:
    """The result as JSON in plain ASCII."""
    return "".join(json_parts(result))


def json_parts(result: ValidationResult) -> Iterator[str]:
    """The result as JSON in plain ASCII, an environment at a time."""
    return plain_json_parts(head_data(result), map(environment_data, result.environments))


def plain_json_parts(head: Mapping[str, Any], environments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A report's data as text without active characters; its environments come last."""
    start, end = _plain_text({**plain_data(head), "environments": []}).rsplit("[]", 1)
    between = "[\n    "
    yield start
    for environment in environments:
        yield between + _plain_text(environment).replace("\n", "\n    ")
        between = ",\n    "
    yield f"{'[]' if between.startswith('[') else chr(10) + '  ]'}{end}\n"


def _plain_text(data: Mapping[str, Any]) -> str:
    text = to_json(data, indent=2, inf_nan_mode="strings").decode()
    if not text.isascii():  # json alone writes ASCII, but indents in Python: five times as long
        text = json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False)
    text = _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    return text.replace("\x7f", "\\u007f").replace("##[", "##\\u005b")


def environment_data(result: EnvironmentResult) -> dict[str, Any]:
    """The JSON entry of one environment, as plain data."""
    data: dict[str, Any] = plain_data(_environment_data(result), depth=2)  # within the report and its list
    return data


def report_data(result: ValidationResult) -> dict[str, Any]:
    """The whole JSON report."""
    return {**head_data(result), "environments": [_environment_data(one) for one in result.environments]}


def head_data(result: ValidationResult) -> dict[str, Any]:
    """The run's own data in the JSON report; the HTML report uses it, too."""
    return {
        "version": FORMAT_VERSION,
        "tool": result.tool_version,
        "verdict": result.verdict,
        "interrupted": result.interrupted,
        "unfinished": result.unfinished,
        "seconds": result.seconds,
        "gates": result.gates,
        "endpoint": result.endpoint,
        "split": result.split,
        "shard": result.shard and asdict(result.shard),
        "runs": result.runs,
        "rules": [asdict(each) for each in result.rules],
        "problems": [_problem_data(problem) for problem in result.problems],
    }


def _environment_data(environment: EnvironmentResult) -> dict[str, Any]:
    return {
        "name": environment.name,
        "folder": environment.folder,
        "generation": environment.generation,
        "package_version": environment.version,
        "digest": environment.digest,
        "hub_hash": environment.hub_hash,
        "wheel": environment.wheel and {"filename": environment.wheel.filename, "sha256": environment.wheel.sha256},
        "verdict": environment.verdict,
        "cached": environment.cached,
        "observed_by": environment.observed_by and asdict(environment.observed_by),
        "brief": environment.brief,
        "worker": environment.started and asdict(environment.started),
        "seconds": environment.seconds,
        "stage_seconds": environment.stage_seconds,
        "gates": environment.gates,
        "reasons": environment.reasons,
        "policies": environment.policies,
        "tasks_count": environment.tasks_count,
        "scores_count": environment.scores_count,
        "rollouts_count": environment.rollouts_count,
        "distributions": [distribution_data(measured) for measured in environment.distributions],
        "profiles": [_profile_data(profile) for profile in environment.profiles],
        "prompts": environment.prompts,
        "recordings": [_recording_data(recording) for recording in environment.recordings],
        "spending": environment.spending,
        "judge": environment.judge,
        "env_args": environment.env_args,
        "by_former_rules": environment.by_former_rules,
        "mutation": _mutation_data(environment),
        "search": _search_data(environment.search),
        "findings": [_finding_data(environment, finding) for finding in weightiest_first(environment.findings)],
        "failures": [_failure_data(environment, stage, broke) for stage, broke in environment.failures.items()],
        "transcripts": _transcripts_data(environment),
    }


def _transcripts_data(environment: EnvironmentResult) -> dict[str, Any] | None:
    """The file of the transcripts beside the report, and how many it shows."""
    held = environment.transcripts
    return None if held is None else {"file": transcripts_file(environment.name), "shown": held.shown, "of": held.of}


def _finding_data(environment: EnvironmentResult, finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "gate": finding.gate,
        "severity": finding.severity,
        "message": finding.message,
        "evidence": finding.evidence.named(),
        "fix": finding.fix,
        "file": path_in_repository(environment, finding.place),
        "line": finding.place.line if finding.place else None,
        "inconclusive": finding.inconclusive,
        "bug": finding.bug,
        "waiting": finding.waiting,
        "ignored": finding.ignored is not None,
        "reason": finding.ignored,
        "transcript": transcript_of(environment, finding),
    }


def _problem_data(problem: Problem) -> dict[str, Any]:
    return {**asdict(problem), "message": problem.message, "fix": problem.fix}


def _failure_data(environment: EnvironmentResult, stage: str, failure: Failure) -> dict[str, Any]:
    return {
        "stage": stage,
        "kind": failure.kind,
        "type": failure.type,
        "message": failure.message,
        "file": path_in_repository(environment, failure.place),
        "line": failure.place.line if failure.place else None,
        "traceback": failure.traceback,
    }


def _mutation_data(environment: EnvironmentResult) -> dict[str, Any] | None:
    """All mutants with their diffs and outcomes, and the mutated modules; only the counts if it is brief."""
    mutation = environment.mutation
    if mutation is None:
        return None
    data = {part.name: getattr(mutation, part.name) for part in fields(mutation)}
    del data["unlisted"]  # they are included in the counts
    data["sources"] = [
        {"file": one.file, "path": path_in_repository(environment, Place(one.file)), "text": one.text}
        | {"reached": one.reached}
        for one in mutation.sources
    ]
    return {"score": mutation.score, "score_range": mutation.score_range, "counts": mutation.outcomes, **data}


def _search_data(search: Search | None) -> dict[str, Any] | None:
    """The search, with every exploit and its rewards on the probe tasks."""
    return None if search is None else {part.name: getattr(search, part.name) for part in fields(search)}


def _profile_data(profile: RewardProfile) -> dict[str, Any]:
    """A profile; each group is a short list, because there are many."""
    return {
        "policy": profile.policy,
        "source": profile.source,
        "scripted": profile.scripted,
        "tasks": profile.tasks,
        "tokens": profile.tokens,
        "seconds": profile.seconds,
        "spreads": [vars(spread) for spread in profile.spreads],
        "groups": [[group.task, group.count, group.mean, group.deviation] for group in profile.groups],
        "correlations": [[one.first, one.second, one.coefficient, one.count] for one in profile.correlations],
        "by_length": [_by_size(one) for one in profile.by_length],
        "by_turns": [_by_size(one) for one in profile.by_turns],
    }


def _by_size(one: RewardBySize) -> list[float]:
    return [one.least, one.most, one.count, one.mean, one.low, one.high]


def _recording_data(recording: RecordingFacts) -> dict[str, Any]:
    """A recording with its baseline's numbers and its changes, without its rows."""
    baseline = recording.baseline
    copied = (
        "model",
        "date",
        "endpoint",
        "judge",
        "split",
        "rollouts",
        "scored",
        "mean",
        "interval",
        "confidence",
        "digest",
        "functions",
    )
    return {
        "file": recording.file,
        "speaker": baseline.get("model") or baseline.get("policy"),
        **{name: baseline.get(name) for name in (*copied, "package_version", "sampling", "spent", "tokens")},
        "replayed": recording.replayed,
        "compared": recording.compared,
        "change_count": recording.change_count,
        "changes": [
            {
                "line": change.line,
                "task": change.task,
                "reply": reply_text(change.completion),
                "reward": change.reward,
                "again": change.again,
                "functions": change.functions,
                "functions_again": change.functions_again,
            }
            for change in recording.changes
        ],
        "not_compared": recording.not_compared,
        "problems": recording.problems,
        "failure": recording.failure,
    }
