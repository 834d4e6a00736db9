"""The model from which every report is rendered.

`judge` decides the verdicts. A report only sorts and formats them.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from envwright_worker.messages import text_of
from envwright_worker.splits import Split

# Imported at run time: `observing/verdicts.py` checks a stored result against these classes.
from envwright.declarations.package import Generation, Package
from envwright.facts.mutation import Mutation, brief
from envwright.facts.observed import Facts, Failure, Place, Signer, StartMode, Wheel
from envwright.facts.recordings import RecordingFacts
from envwright.facts.search import Search
from envwright.facts.spending import Spending
from envwright.facts.stages import StageName
from envwright.facts.transcripts import PackedTranscripts
from envwright.rules.engine import GATES, Finding, Gate, Verdict, stops_publishing
from envwright.rules.profiles import RewardProfile
from envwright.rules.settings import SetSeverity
from envwright.rules.transcripts import shown_transcripts, transcript_of_reply
from envwright.rules.verdict import VERDICTS
from envwright.statistics.measures import Distribution
from envwright.text.visible_text import on_one_line, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from envwright.declarations.problem import Problem
    from envwright.packages.recordings import RecordingOnDisk
    from envwright.rules.verdict import Judgement

FindingKind = Literal["error", "bug", "inconclusive", "warning", "advice", "ignored"]
"""The classes of findings in reports, most important first."""
FINDING_KINDS: tuple[FindingKind, ...] = ("error", "bug", "inconclusive", "warning", "advice", "ignored")
DECLARED_BUDGET = re.compile(r"`(gates: \{budget: \d+\})`")
"""The budget that a fix proposes for `registry.yaml`."""
LONGEST_PROMPT = 160
DECIDING: frozenset[FindingKind] = frozenset({"error", "bug", "inconclusive"})
"""Findings that affect the verdict."""


@dataclass(frozen=True)
class EnvironmentResult:
    """The result of one environment: its verdicts and their evidence."""

    name: str
    folder: str
    """The folder relative to the repository, with forward slashes: `environments/reverse_text`."""
    verdict: Verdict
    module_path: str = ""
    """The module relative to the folder, if it is not directly in it: `src/reverse_text`."""
    generation: Generation | None = None
    version: str = ""
    digest: str = ""
    hub_hash: str = ""
    wheel: Wheel | None = None
    """The wheel that was tested; `None` if none was built."""
    cached: bool = False
    seconds: float = 0.0
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    gates: Mapping[Gate, Verdict] = field(default_factory=dict)
    """The verdicts of the judged gates."""
    reasons: Mapping[Gate, str] = field(default_factory=dict)
    """Why each gate has its verdict."""
    findings: tuple[Finding, ...] = ()
    failures: Mapping[StageName, Failure] = field(default_factory=dict)
    """Failures outside the environment."""
    tasks_count: int = 0
    scores_count: int = 0
    rollouts_count: int = 0
    policies: tuple[str, ...] = ()
    """Policies with a reply, in the order of their first one."""
    mutation: Mutation | None = None
    """The mutants of the reward code; `None` if mutation testing was not requested or not reached."""
    search: Search | None = None
    """The search for exploits; `None` if it was not requested or not reached."""
    distributions: tuple[Distribution, ...] = ()
    """The measurements of the rewards, policy by policy."""
    profiles: tuple[RewardProfile, ...] = ()
    """The rewards of each policy, for the charts."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Task → the beginning of its prompt, for the tasks of profiles with rollouts."""
    recordings: tuple[RecordingFacts, ...] = ()
    """Recorded rollouts, compared with this code."""
    started: StartMode | None = None
    """The start of its worker; `None` if there was none."""
    brief: bool = False
    """Without profiles, detected mutants, and checks and advice of the distribution gate."""
    spending: Spending | None = None
    """The cost of a real model's calls; `None` if all policies are scripted."""
    judge: str | None = None
    """The model that judged a real model, or `scripted`; `None` if neither did."""
    transcripts: PackedTranscripts | None = None
    """The chosen transcripts; `None` if there was no conversation."""
    transcript_ids: frozenset[str] = frozenset()
    """Of a result that was read from a report: the ids of the transcripts that its findings rest on."""
    observed_by: Signer | None = None
    """The key that signed an observation from a store of several machines; `None` if it was made here."""
    env_args: Mapping[str, Any] | None = None
    """Arguments of the environment that the command line set beside the registry's: the result of a variant, which is
    not evidence for a release. `None` without."""
    by_former_rules: Verdict | None = None
    """Its verdict with the severities of rules at the base of the change, if it is another one."""


@dataclass(frozen=True)
class ShardOfRun:
    """The part of a run's environments that one machine validated."""

    index: int
    of: int
    environments: tuple[str, ...]
    """The environments of all machines together."""


@dataclass(frozen=True)
class Outline:
    """Numbers for the sentences of a report, computed once."""

    verdicts: tuple[Verdict, ...]
    """The names of the environments, in order."""
    cached: int
    """Environments whose verdict rests on an observation of an earlier run."""
    signers: Mapping[str, int]
    """The keys that signed observations of other machines, each with the number of its environments."""
    policies: tuple[str, ...]
    """Policies of all environments, in the order of their first reply."""
    unmet: tuple[tuple[str, Finding | None], ...]
    """Environments that did not pass, worst first, each with its most important deciding finding."""
    unready: tuple[tuple[str, tuple[Finding, ...]], ...] = ()
    """Environments that passed and that a release does not publish, each with the findings that stop it."""
    altered: tuple[tuple[str, Verdict, Verdict], ...] = ()
    """Environments with the verdict by the severities at the base, and the one here, where these differ."""

    @property
    def counts(self) -> Counter[Verdict]:
        return Counter(self.verdicts)


@dataclass(frozen=True)
class ValidationResult:
    """One run of `envwright validate`, whole or cut short."""

    verdict: Verdict
    environments: Sequence[EnvironmentResult] = ()
    """May be read back one at a time (`reports/spill_list.py`): iterate, do not hold."""
    problems: tuple[Problem, ...] = ()
    """Mistakes in declarations. Those of runs refuse the runs; if there are others, nothing was observed."""
    interrupted: bool = False
    unfinished: tuple[str, ...] = ()
    """Environments that were chosen and have no result because the run was cut short."""
    seconds: float = 0.0
    tool_version: str = ""
    gates: tuple[Gate, ...] = GATES
    """The requested gates."""
    endpoint: str | None = None
    """The endpoint of a real model; `None` if all policies are scripted."""
    split: Split = "train"
    """The tasks of the real model's rollouts."""
    shard: ShardOfRun | None = None
    """`None` when one machine had all of them."""
    next_command: str = ""
    """The next step after a pass, such as `git push`; empty if there is none."""
    runs: tuple[str, ...] = ()
    """Declared runs that were judged because they changed or were named."""
    rules: tuple[SetSeverity, ...] = ()
    """The rules with a severity of the repository's."""

    @cached_property
    def outline(self) -> Outline:
        """Count the results, reading every environment once."""
        verdicts: list[Verdict] = []
        policies: dict[str, None] = {}
        unmet: list[tuple[Verdict, str, Finding | None]] = []
        unready: list[tuple[str, tuple[Finding, ...]]] = []
        signers: Counter[str] = Counter()
        altered: list[tuple[str, Verdict, Verdict]] = []
        cached = 0
        for one in self.environments:
            verdicts.append(one.verdict)
            policies |= dict.fromkeys(one.policies)
            cached += one.cached
            signers.update([one.observed_by.key] if one.observed_by else ())
            altered += [(one.name, one.by_former_rules, one.verdict)] if one.by_former_rules else []
            if one.verdict != "pass":
                unmet.append((one.verdict, one.name, _deciding_finding(one)))
            elif stopping := tuple(filter(stops_publishing, one.findings)):
                unready.append((one.name, stopping))
        unmet.sort(key=lambda each: VERDICTS.index(each[0]))
        worst_first = tuple((name, finding) for _, name, finding in unmet)
        by_signer = dict(sorted(signers.items()))
        return Outline(tuple(verdicts), cached, by_signer, tuple(policies), worst_first, tuple(unready), tuple(altered))


def _deciding_finding(environment: EnvironmentResult) -> Finding | None:
    """The finding that decided; for gates that wait for a known finding, that one; else one of too short a budget."""
    findings = weightiest_first(environment.findings)
    deciding = (one for one in findings if finding_kind(one) in DECIDING)
    others = (one for one in findings if one.waiting or DECLARED_BUDGET.search(one.fix))
    return next(deciding, None) or next(others, None)


def environment_result(
    package: Package,
    facts: Facts,
    judgement: Judgement,
    *,
    root: Path,
    cached: bool,
    seconds: float,
    recorded: Iterable[RecordingOnDisk] = (),
) -> EnvironmentResult:
    """The result of one environment from its declaration, facts and judgement, and the rollouts of its recordings."""
    spoke = [score.policy for score in facts.scores] + [rollout.policy for rollout in facts.rollouts]
    return EnvironmentResult(
        name=package.name,
        folder=package.folder.resolve().relative_to(root.resolve()).as_posix(),
        verdict=judgement.verdict,
        module_path=package.module_path if package.module_root else "",
        generation=facts.description.generation if facts.description else package.generation,
        version=package.version,
        digest=package.digest,
        hub_hash=package.hub_hash,
        wheel=facts.wheel,
        cached=cached,
        seconds=seconds,
        stage_seconds=dict(facts.seconds),
        gates={gate: judged.verdict for gate, judged in judgement.gates.items()},
        reasons={gate: judged.reason for gate, judged in judgement.gates.items()},
        findings=judgement.findings,
        failures=facts.broken_infrastructure(),
        started=facts.started,
        tasks_count=len(facts.tasks),
        scores_count=len(facts.scores),
        rollouts_count=len(facts.rollouts),
        policies=tuple(dict.fromkeys(spoke)),
        mutation=facts.mutation if "rewards" in judgement.gates else None,
        search=facts.search if "rewards" in judgement.gates else None,
        distributions=judgement.distributions,
        profiles=judgement.profiles,
        prompts=_prompts(facts, judgement.profiles),
        recordings=facts.recordings if "distribution" in judgement.gates else (),
        transcripts=shown_transcripts(facts, judgement.findings, recorded),
        observed_by=facts.observed_by,
    )


def _prompts(facts: Facts, shown: Iterable[RewardProfile]) -> dict[str, str]:
    wanted = {group.task for profile in shown if profile.source == "rollouts" for group in profile.groups}
    found = [task for task in facts.tasks if task.index in wanted and task.prompt]
    return {str(task.index): on_one_line(shortened(text_of(task.prompt[-1]), LONGEST_PROMPT)) for task in found}


def in_brief(result: EnvironmentResult) -> EnvironmentResult:
    """A short result: all deciding data, and numbers instead of charts.

    Only for environments that pass, and only in reports of very many environments.
    """
    if result.verdict != "pass":
        return result
    measured = tuple(replace(one, checks=(), advice=()) for one in result.distributions)
    return replace(result, profiles=(), prompts={}, mutation=brief(result.mutation), distributions=measured, brief=True)


def broken_result(name: str, folder: str, failure: Failure, *, stage: StageName, seconds: float) -> EnvironmentResult:
    """The result of an environment whose validation failed before its observation."""
    return EnvironmentResult(name, folder, "error", seconds=seconds, failures={stage: failure})


def undeclared_result(name: str, folder: str, findings: tuple[Finding, ...]) -> EnvironmentResult:
    """The result of an environment whose declaration is wrong, so that nothing of it was observed."""
    rules = ", ".join(dict.fromkeys(finding.rule for finding in findings))
    return EnvironmentResult(
        name, folder, "fail", gates={"schema": "fail"}, reasons={"schema": rules}, findings=findings
    )


def finding_kind(finding: Finding) -> FindingKind:
    """The class of a finding in reports."""
    if finding.ignored is not None:
        return "ignored"
    if finding.bug:
        return "bug"
    if finding.inconclusive:
        return "inconclusive"
    return finding.severity


def weightiest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order reports show them; equals keep theirs."""
    return sorted(findings, key=lambda finding: FINDING_KINDS.index(finding_kind(finding)))


def unreached_gates(environment: EnvironmentResult) -> list[tuple[Gate, str]]:
    """Gates that neither passed nor failed, with the reason."""
    return [
        (gate, environment.reasons[gate])
        for gate, verdict in environment.gates.items()
        if verdict in ("error", "inconclusive") and gate in environment.reasons
    ]


def transcript_of(environment: EnvironmentResult, finding: Finding) -> str | None:
    """The id of the transcript that a finding rests on, if it is among the shown ones."""
    reply, held = finding.evidence.reply, environment.transcripts
    known = environment.transcript_ids if held is None else held.ids
    found = None if reply is None else transcript_of_reply(reply, finding.evidence.case)
    return found if found in known else None


def path_in_repository(environment: EnvironmentResult, place: Place | None) -> str | None:
    """The file of a place as seen from the repository; an absolute path is unchanged."""
    return None if place is None else path_of_place(environment.folder, environment.module_path, place)


def path_of_place(folder: str, module_path: str, place: Place) -> str:
    """The file of a place in a package whose module is at `module_path`.

    A place in the module is a path of the wheel, which has no folder above the module.
    """
    if posixpath.isabs(place.file):
        return place.file
    root, _, module = module_path.rpartition("/")
    is_shipped = place.file == f"{module}.py" or place.file.startswith(f"{module}/")
    file = posixpath.join(root, place.file) if root and is_shipped else place.file
    return posixpath.normpath(posixpath.join(folder, file))


def where(environment: EnvironmentResult, place: Place | None) -> str:
    """`file:line`, `file`, or an empty string."""
    file = path_in_repository(environment, place)
    if place is None or file is None:
        return ""
    return file if place.line is None else f"{file}:{place.line}"
