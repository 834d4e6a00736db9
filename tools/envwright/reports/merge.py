"""Merging the reports of a divided run, and listing missing ones.

A missing report never counts as a pass: its environments and runs are unfinished, and the
merged verdict is inconclusive at best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envwright.declarations.problem import DeclarationError, Problem
from envwright.reports.reading import share_of
from envwright.rules.verdict import worst

if TYPE_CHECKING:
    from envwright.rules.engine import Verdict

SAME = ("version", "tool", "gates", "endpoint")
"""The data in which reports of one run agree."""


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
