"""The two sides of `envops compare`: an endpoint, a file of results, or a recording, and what each one holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from envops.facts.observed import Facts
from envops.facts.results import EvaluationRow
from envops.models.import_results import Expected, NoResults, import_results, say_problems
from envops.models.model_evaluation import sampling_of
from envops.models.model_run import Refused
from envops.repository.content import reward_digest
from envops.repository.endpoints import ENDPOINTS_FILE, Endpoint, read_endpoints
from envops.repository.package import Package
from envops.repository.problem import nearest
from envops.repository.recordings import RecordingOnDisk, read_recordings
from envops.repository.registry import EnvironmentEntry

Kind = Literal["endpoint", "results", "recording"]
Place = Literal["before", "after"]
KINDS: tuple[Kind, ...] = ("endpoint", "results", "recording")


@dataclass(frozen=True)
class Source:
    """Where the rollouts of one side come from."""

    place: Place
    name: str
    """As it was written on the command line, without its kind."""
    kind: Kind
    endpoint: Endpoint | None = None
    path: Path | None = None
    recording: RecordingOnDisk | None = None


@dataclass(frozen=True)
class Rollouts:
    """What one side holds."""

    source: Source
    rows: tuple[EvaluationRow, ...]
    date: str = ""

    @property
    def speaker(self) -> str:
        return next((row.speaker for row in self.rows if row.policy or row.model), "unknown")

    @property
    def sampling(self) -> Mapping[str, Any]:
        """How it was sampled; empty where the source does not say."""
        return next((row.sampling for row in self.rows if row.sampling), {})

    @property
    def rollouts(self) -> int:
        """The most rollouts that one task has."""
        return max(Counter(row.task_key for row in self.rows).values(), default=1)


def source_of(root: Path, package: Package, place: Place, text: str) -> Source:
    """What a side's name means. Raises `Refused` where it means nothing, or two things."""
    kind, _, rest = text.partition(":")
    wanted = kind if kind in KINDS and rest else None
    name = rest if wanted else text
    endpoints = read_endpoints(root)
    recordings = {_name_of(each): each for each in read_recordings(package.folder)}
    path = Path(name)
    found = {
        "endpoint": Source(place, name, "endpoint", endpoint=endpoints.get(name)) if name in endpoints else None,
        "recording": _recording(place, name, path, recordings),
        "results": Source(place, name, "results", path=path) if path.exists() and not name.endswith(".gz") else None,
    }
    meant = [each for kind, each in found.items() if each is not None and wanted in (None, kind)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        ways = " or ".join(f"{each.kind}:{name}" for each in meant)
        raise Refused(f"{text} is several things: say {ways}")
    known = [*endpoints, *recordings]
    near = nearest(name, known)
    raise Refused(
        f"{text} is no {wanted or 'endpoint, no recording and no file'}"
        + (f"; did you mean {near}?" if near else "")
        + f"\nendpoints ({ENDPOINTS_FILE}): {', '.join(endpoints) or 'none'}"
        + f"\nrecordings of {package.name}: {', '.join(recordings) or 'none'}"
    )


def _recording(place: Place, name: str, path: Path, recordings: Mapping[str, RecordingOnDisk]) -> Source | None:
    stem = re.sub(r"\.(jsonl\.gz|json)$", "", path.name) if name.endswith((".jsonl.gz", ".json")) else name
    named = name == stem or path.parent.name == "recordings"
    return Source(place, stem, "recording", recording=recordings[stem]) if named and stem in recordings else None


def _name_of(recording: RecordingOnDisk) -> str:
    return Path(recording.file).name.removesuffix(".jsonl.gz")


def rollouts_on_file(source: Source, entry: EnvironmentEntry, package: Package, known: Facts) -> Rollouts:
    """The rollouts of a file or a recording. Raises `Refused`, by name and line, where they are of something else."""
    if source.recording is not None:
        rows, date = _recorded(source.recording, entry, package), str(source.recording.baseline.get("date") or "")
    else:
        rows, date = _imported(source, entry, package, known), ""
    first: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if row.policy or row.model:  # a line that cannot be read says nothing of who spoke
            first.setdefault(row.speaker, number)
    if len(first) > 1:
        said = ", ".join(f"{speaker} (from row {number})" for speaker, number in first.items())
        raise Refused(f"{source.name}: one side is one speaker, here are {said}")
    return Rollouts(source, rows, date)


def _imported(source: Source, entry: EnvironmentEntry, package: Package, known: Facts) -> tuple[EvaluationRow, ...]:
    assert source.path is not None
    try:
        imported = import_results(source.path, Expected(entry.name, package.module, package.digest, known))
    except (NoResults, OSError) as error:
        raise Refused(f"{source.name}: {error}") from None
    if imported.refusals:
        say_problems(imported.path, imported.refusals, "not compared, because the file is evidence of something else")
        raise Refused(f"{source.name}: refused; evaluate this version of {entry.name} with what spoke there")
    say_problems(imported.path, imported.problems, "compared all the same: what cannot be used counts as missing")
    return tuple(imported.rows)


def _recorded(recording: RecordingOnDisk, entry: EnvironmentEntry, package: Package) -> tuple[EvaluationRow, ...]:
    place = f"{package.folder.name}/{recording.file}"
    for problem in recording.problems[:1]:
        line = f":{problem.line}" if problem.line else ""
        raise Refused(f"{package.folder.name}/{problem.file}{line}: {problem.message}")
    said = recording.baseline
    if said.get("environment") != entry.name:
        raise Refused(f"{place}: is of environment {said.get('environment')!r}, not {entry.name!r}")
    now = reward_digest(entry, package)
    if said.get("reward_digest") != now:
        renewal = f"nox -s record -- {entry.name} --endpoint {said.get('endpoint') or 'ENDPOINT'}"
        raise Refused(f"{place}: is of code with the digest {said.get('reward_digest')}, here it is {now}: {renewal}")
    return tuple(row for _, row in recording.rows)


def sampled_alike(before: Source, after: Source, held: Mapping[Place, Rollouts]) -> tuple[Source, Source]:
    """Both sides with the smaller limit of a reply, where an endpoint can be held to it."""
    limits = [_limit(side, held) for side in (before, after)]
    known = [limit for limit in limits if limit is not None]

    def held_to(side: Source) -> Source:
        if side.endpoint is None or not known:
            return side
        return replace(side, endpoint=replace(side.endpoint, max_tokens=min([side.endpoint.max_tokens, *known])))

    return held_to(before), held_to(after)


def _limit(side: Source, held: Mapping[Place, Rollouts]) -> int | None:
    if side.endpoint is not None:
        return side.endpoint.max_tokens
    limit = held[side.place].sampling.get("max_tokens")
    return limit if isinstance(limit, int) and limit > 0 else None


def sampling_of_side(side: Source, held: Mapping[Place, Rollouts]) -> Mapping[str, Any]:
    """How a side is or was sampled, without its seed."""
    said = sampling_of(side.endpoint) if side.endpoint is not None else held[side.place].sampling
    return {key: value for key, value in said.items() if key != "seed" and value is not None}


def sampling_difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What is sampled differently, in words; empty where nothing is, or one side does not say."""
    if not before or not after:
        return ""
    keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    return ", ".join(f"{key} {before.get(key, 'not set')} before and {after.get(key, 'not set')} after" for key in keys)
