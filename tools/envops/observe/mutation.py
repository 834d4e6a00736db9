"""Mutation testing of one environment's reward code, from what was scored before to what survived.

Three requests to the worker: which lines run while rewards are computed, try the mutants of those
lines, and what became of each; between the last two it answers others. The mutants are made here,
where a syntax tree that keeps its layout is at hand; `libcst` is imported only then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envops.declare.cases import TOLERANCE, Expectation, parse_expectation
from envops.observe.facts import Case, Description, Failure, Message, Score, adapter
from envops.observe.mutation_facts import Mutant, Mutation, StaleMark
from envops.observe.process import StageFailed
from envops.observe.reward_range import DeclaredRange, range_of

if TYPE_CHECKING:
    from envops.declare.mutation_settings import EquivalentMutant
    from envops.declare.package import Package
    from envops.observe.mutants.source import Site, SourceFile

MOST_MUTANTS = 60
SECONDS_FOR_MUTANTS = 4.0
SECONDS_TO_REACH = 5.0
PATIENCE = 15.0
"""How much longer the host waits than the worker may take: losing the worker costs all that comes after."""
TASKS_OF_GOLD = 12
TASKS_OF_POLICIES = 3
FORMS_OF_A_POLICY = 2
LONGEST_REPLY = 20_000
SLOWEST_SECONDS = 0.1
RIGHT = frozenset({"oracle", "padded", "equivalent"})
"""Policies that say the right answer; all others must stay below gold."""
MOST_FRAGMENTS = 12

Ask = Callable[..., Iterator[tuple[str, Any]]]
"""Send the worker one request of the operation `mutation`; items come back as kind and value."""


@dataclass(frozen=True)
class Limits:
    """How much mutation testing there may be."""

    mutants: int = MOST_MUTANTS
    seconds: float = SECONDS_FOR_MUTANTS


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class MutationUnderWay:
    """The mutants of one environment while the worker tries them, beside whatever else it is asked."""

    _ask: Ask
    _package: Package
    _description: Description
    _limits: Limits
    _probes: Sequence[Mapping[str, Any]]
    _sources: Mapping[str, SourceFile]
    _sites: Sequence[Site]
    _chosen: Mapping[str, Mapping[str, Any]]
    _started: float

    def result(self) -> Mutation:
        """What became of them.

        Raises whatever asking the worker raises.
        """
        tried, left_out, ended = _collected(self._ask, self._chosen, self._limits.seconds)
        marks = {mark.mutant: mark for mark in self._package.mutation.equivalent}
        mutants = tuple(
            _mutant(site, self._chosen[site.id], tried[site.id], marks) for site in self._sites if site.id in tried
        )
        counted_out = len(self._sites) > len(self._chosen) >= self._limits.mutants
        sites = _in_order(self._sites)
        return Mutation(
            exist=len(self._sites),
            unreached=sum(source.unreached for source in self._sources.values()),
            bound="time" if ended == "time" else "count" if counted_out else "all",
            most=self._limits.mutants,
            seconds_allowed=self._limits.seconds,
            mutants=mutants,
            functions=tuple(dict.fromkeys(f"{self._sources[one.file].module}.{one.function}" for one in sites)),
            conversations=len(self._probes) - len(left_out),
            cases=sum(probe["case"] and probe["name"] not in left_out for probe in self._probes),
            left_out=left_out,
            stale=tuple(_stale(marks, self._sites, mutants)),
            recorded=self._description.conversational,
            seconds=round(time.monotonic() - self._started, 3),
        )


def begin_mutation(
    ask: Ask,
    package: Package,
    site: Path,
    description: Description,
    scores: Sequence[Score],
    cases: Sequence[Case],
    limits: Limits = DEFAULT_LIMITS,
) -> MutationUnderWay:
    """Mutate the reward code below `site` and let the worker see which mutants anything notices.

    Raises `StageFailed` where the source cannot be mutated, and whatever `ask` raises.
    """
    from envops.observe.mutants.source import mutants_of

    started = time.monotonic()
    probes = probes_of(package, description, scores, cases)
    reached: dict[str, Any] = {"lines": {}, "rewards": {}}
    if probes:
        reached |= dict(ask(SECONDS_TO_REACH + PATIENCE, step="reach", probes=probes, seconds=SECONDS_TO_REACH)).get(
            "reached", {}
        )
    try:
        files = {file: (site / file).read_text("utf-8") for file in sorted(reached["lines"])}
        sources, sites = mutants_of(files, reached["lines"], reached["rewards"])
    except Exception as error:  # no mistake of the author's: Python took the same source
        raise StageFailed(Failure("infrastructure", type(error).__name__, f"not mutated: {error}")) from error
    by_file = {source.file: source for source in sources}
    chosen = _written(sites, by_file, limits.mutants)
    if chosen:
        left = max(limits.seconds / 2, limits.seconds - (time.monotonic() - started))
        mutants = [{key: value for key, value in mutant.items() if key != "diff"} for mutant in chosen.values()]
        fragments = _fragments(files, sites)
        for _ in ask(PATIENCE, step="try", probes=probes, mutants=mutants, fragments=fragments, seconds=left):
            pass
    return MutationUnderWay(ask, package, description, limits, probes, by_file, sites, chosen, started)


def _in_order(sites: Sequence[Site]) -> list[Site]:
    return sorted(sites, key=lambda site: (site.file, site.line))


def _written(sites: Sequence[Site], by_file: Mapping[str, SourceFile], most: int) -> dict[str, dict[str, Any]]:
    """The first mutants of the sample that are Python, by id."""
    chosen: dict[str, dict[str, Any]] = {}
    for site in sites:
        if len(chosen) == most:
            break
        mutant = by_file[site.file].written(site)
        if mutant is not None:
            chosen[site.id] = mutant
    return chosen


def _collected(
    ask: Ask, chosen: Mapping[str, Mapping[str, Any]], seconds: float
) -> tuple[dict[str, dict[str, Any]], dict[str, str], str]:
    """Mutant → what became of it, conversations that were of no use, and what ended it."""
    tried: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    ended = ""
    if not chosen:
        return tried, left_out, ended
    for kind, value in ask(seconds + 2 * PATIENCE, step="collect", seconds=seconds + PATIENCE):
        if kind == "mutant":
            tried[value["id"]] = value
        elif kind == "left_out":
            left_out = value
        elif kind == "ended":
            ended = value
    return tried, left_out, ended


def _mutant(
    site: Site, written: Mapping[str, Any], found: Mapping[str, Any], marks: Mapping[str, EquivalentMutant]
) -> Mutant:
    mark = marks.get(site.id)
    fields = {
        "id": site.id,
        "operator": site.operator,
        "function": site.function,
        "file": site.file,
        "line": site.line,
        "diff": written["diff"],
        "outcome": found["outcome"],
        "by": found.get("by", ""),
        "apart": found.get("apart"),
    }
    mutant: Mutant = adapter(Mutant).validate_python(fields)
    if mark is not None and mutant.outcome == "survived" and mutant.apart is None:
        return replace(mutant, outcome="equivalent", reason=mark.reason)
    return mutant


def _stale(
    marks: Mapping[str, EquivalentMutant], sites: Sequence[Site], mutants: Sequence[Mutant]
) -> Iterator[StaleMark]:
    """Marks of mutants that do not exist (any more), or that something tells apart."""
    exist = {site.id for site in sites}
    tried = {mutant.id: mutant for mutant in mutants}
    for mark in marks.values():
        mutant = tried.get(mark.mutant)
        if mark.mutant not in exist:
            yield StaleMark(mark.mutant, mark.reason)
        elif mutant is not None and mutant.outcome in ("killed", "timeout", "survived"):
            yield StaleMark(mark.mutant, mark.reason, mutant.by or "a reply that was found scores otherwise")


def _fragments(files: Mapping[str, str], sites: Sequence[Site]) -> list[str]:
    """Texts that the reward code looks for: what an attacker, too, would read out of it."""
    import libcst as cst

    texts: dict[str, None] = {}
    for site in sites:
        if site.operator == "change text" and isinstance(site.old, cst.SimpleString):
            text = site.old.evaluated_value
            if isinstance(text, str) and text.strip():
                texts.setdefault(text)
    return list(texts)[:MOST_FRAGMENTS] if files else []


# What the mutants are asked about.


def probes_of(
    package: Package, description: Description, scores: Sequence[Score], cases: Sequence[Case]
) -> list[dict[str, Any]]:
    """The conversations that were scored before, with what was laid down of each: cases first, then policies."""
    bounds = range_of(package.reward, description.functions)
    gold = {score.task: score.reward for score in scores if score.policy == "oracle" and score.reward is not None}
    probes = [
        _probe(
            f"case {case.name!r}",
            case.score,
            description,
            [_expected(name, parse_expectation(text), text) for name, text in case.expect.items()],
            case=True,
            seed=True,
        )
        for case in cases
        if case.score is not None and _is_usable(case.score, description)
    ]
    for score in _policy_scores([score for score in scores if _is_usable(score, description)]):
        reward = gold.get(score.task)
        seed = score.policy == "oracle" and len(gold) > 0 and score.task in list(gold)[:2]
        expected = list(_bounds_of_policy(score, reward, bounds))
        name = f"policy {score.policy} on task {score.task}"
        probes.append(_probe(name, score, description, expected, case=False, seed=seed))
    return probes


def _policy_scores(scores: Sequence[Score]) -> Iterator[Score]:
    """Gold on some tasks, every other policy on fewer; nothing so long that it costs the others their time."""
    tasks = list(dict.fromkeys(score.task for score in scores))
    counts: dict[tuple[int, str], int] = {}
    for score in sorted(scores, key=lambda score: score.policy != "oracle"):
        most = TASKS_OF_GOLD if score.policy == "oracle" else TASKS_OF_POLICIES
        key = (score.task, score.policy)
        counts[key] = counts.get(key, 0) + 1
        length = sum(len(str(message.get("content") or "")) for message in score.completion)
        if score.task in tasks[:most] and counts[key] <= FORMS_OF_A_POLICY and length <= LONGEST_REPLY:
            yield score


def _is_usable(score: Score, description: Description) -> bool:
    """Whether it was scored, without a failure and soon enough to be scored again and again."""
    slow = score.seconds > SLOWEST_SECONDS and not description.conversational  # there the rollout counts in
    return bool(score.completion) and score.failure is None and not score.failures and not slow


def _bounds_of_policy(score: Score, gold: float | None, bounds: DeclaredRange) -> Iterator[dict[str, Any]]:
    """What the gate lays down of a policy's reward, as far as the code itself keeps it."""
    if score.reward is None:
        return
    tolerance = bounds.tolerance
    yield _within(
        bounds.minimum - tolerance, bounds.maximum + tolerance, f">= {bounds.minimum:g}, <= {bounds.maximum:g}"
    )
    if score.policy == "oracle" or (score.policy in RIGHT and gold is not None and score.reward >= gold - tolerance):
        yield _within(score.reward - tolerance, score.reward + tolerance, f"{score.reward:g} as gold")
    elif score.policy == "nop":
        yield _within(None, bounds.worthless + tolerance, f"<= {bounds.worthless:g} for an empty reply")
    elif score.policy == "format-only":
        yield _within(None, bounds.form_alone + tolerance, f"<= {bounds.form_alone:g} for form alone")
    elif gold is not None and score.policy not in RIGHT:
        yield _within(None, math.nextafter(gold - tolerance, -math.inf), f"< {gold:g}, which gold earns")


def _within(low: float | None, high: float | None, text: str) -> dict[str, Any]:
    return {"of": "reward", "low": low, "high": high, "outside": False, "text": text}


def _expected(name: str, expectation: Expectation, text: str) -> dict[str, Any]:
    """A case's expectation as an interval, which needs no parser in the worker."""
    limit = expectation.limit
    above, below = math.nextafter(limit + TOLERANCE, math.inf), math.nextafter(limit - TOLERANCE, -math.inf)
    low, high = {
        "==": (limit - TOLERANCE, limit + TOLERANCE),
        "!=": (limit - TOLERANCE, limit + TOLERANCE),
        ">": (above, None),
        ">=": (limit - TOLERANCE, None),
        "<": (None, below),
        "<=": (None, limit + TOLERANCE),
        "between": (limit - TOLERANCE, (expectation.upper or 0.0) + TOLERANCE),
    }[expectation.operator]
    return {"of": name, "low": low, "high": high, "outside": expectation.operator == "!=", "text": text}


def _probe(
    name: str, score: Score, description: Description, expected: Sequence[Mapping[str, Any]], *, case: bool, seed: bool
) -> dict[str, Any]:
    completion: tuple[Message, ...] = score.completion
    return {
        "name": name,
        "task": score.task,
        "completion": completion,
        "expect": expected,
        "recorded": score.reward if description.conversational else None,
        "case": case,
        "seed": seed,
    }
