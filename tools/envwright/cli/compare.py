"""`envwright compare NAME --before X --after Y`: is the trained model better on the same tasks?"""

from __future__ import annotations

import argparse
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from envwright_worker.splits import Split

from envwright import __version__, exit_codes
from envwright.cli import arguments
from envwright.cli.distribution import known_environment
from envwright.cli.selection import beside_key
from envwright.declarations.endpoints import Endpoint
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry, held_out_of
from envwright.facts.limits import LOAD_SECONDS
from envwright.facts.observed import Facts, Task
from envwright.facts.results import EvaluationRow, ResultsWriter, task_key
from envwright.models.comparison_sides import (
    ComparisonSide,
    SideRollouts,
    common_split,
    rollouts_on_file,
    sampled_alike,
    sampling_difference,
    sampling_of_side,
    side_of,
    split_of_side,
)
from envwright.models.model_evaluation import (
    MOST_TASKS,
    EvaluationSize,
    Judge,
    OpenedTasks,
    RunRefused,
    evaluate_speaker,
)
from envwright.models.model_run import (
    TASKS_PLAYED,
    EvaluationProgress,
    approve,
    at_concurrency,
    breaking_off,
    ceiling_of,
    default_tasks,
    described,
    judge_cut_short,
    judge_endpoint,
    judge_of,
    refused_by,
    relay_for,
    requested_of,
    require_tasks,
    spent,
)
from envwright.models.spending import estimate
from envwright.observing.job import checked
from envwright.observing.journal import Journal
from envwright.observing.opened_environment import opened_environment
from envwright.packages.repository import Repository
from envwright.reports.before_after import (
    FOLDER,
    ComparisonReport,
    FunctionReport,
    Interval,
    SideReport,
    TaskReport,
    interval_of,
    render_json,
    render_markdown,
    render_text,
)
from envwright.reports.html.written import refresh_page
from envwright.reports.printing import print_message, print_report, write_report
from envwright.statistics.before_after import BeforeAfter, before_after
from envwright.statistics.declared_range import DeclaredRange, declared_range
from envwright.statistics.outcomes import RolloutSample, outcome_of_rollout
from envwright.statistics.task_matching import SideName, TwoSides
from envwright.system.subprocesses import terminated_like_interrupted
from envwright.system.workspace import Workspace
from envwright.training.model_server import ModelServer, NoServer, server_command

EXAMPLES = """examples:
  envwright compare gsm8k --before base --after trained          two endpoints: 0 better, 1 worse, 3 not decided
  envwright compare gsm8k --before recording:base --after checkpoint-200
  envwright compare gsm8k --before openai/gpt-5-nano --after trained             a model of Prime Inference
  envwright compare gsm8k --before base --after run:maths@200     its base model and its step 200, served here
  envwright compare gsm8k --before before.jsonl --after after/results.jsonl
  envwright compare gsm8k --before base --after trained --split train
  envwright compare gsm8k --before base --after trained -n 50 -r 4 --max-cost 2

to see what a run has left, and to serve it until Ctrl-C: envwright train serve RUN
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the environment")
    arguments.root(command)
    side = (
        "an endpoint, run:RUN[@STEP], owner/model of Prime Inference, a recording, or results (recording:X, results:X)"
    )
    command.add_argument("--before", required=True, metavar="SIDE", help=side)
    command.add_argument("--after", required=True, metavar="SIDE", help="the same")
    calls = command.add_argument_group("calls of endpoints", "by default on the tasks of the side that is a file")
    arguments.size(calls)
    arguments.concurrency(calls)
    arguments.split(calls, "that of a file, else eval if the environment has it")
    arguments.max_cost(calls, "both sides together")
    arguments.scripted_judge(calls)
    calls.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="sent with every call, the same on both sides; none sends no seed",
    )
    calls.add_argument("--any-sampling", action="store_true", help="compare sides that were sampled differently")
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="no progress; report only the answer")
    command.add_argument("--no-cache", action="store_true", help="observe again even if nothing changed")
    arguments.network(command, "the environment", "it loads")
    arguments.reports(command, "comparisons/ goes")


def _seed(text: str) -> int | None:
    return None if text == "none" else int(text)


@dataclass(frozen=True)
class Comparison:
    """The settings that both sides share."""

    root: Path
    entry: EnvironmentEntry
    package: Package
    options: argparse.Namespace
    stop: threading.Event
    sides: TwoSides[ComparisonSide]
    split: Split = "train"

    @property
    def reports(self) -> Path:
        return self.options.reports or self.root / "reports"

    def rollouts_file(self, side: ComparisonSide) -> Path:
        """The file for an endpoint's rollouts. No other command uses this name."""
        of_split = "" if self.split == "train" else f"--{self.split}"
        file = f"{self.entry.name}--{side.name}{of_split}--compare-{side.side}.jsonl".replace("/", "_")
        return self.reports / "rollouts" / file

    @property
    def has_evaluation_split(self) -> bool:
        """Whether tasks for evaluation are declared, or the package's source shows them."""
        return held_out_of(self.entry, self.package) is not None

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(side.endpoint for side in self.sides if side.endpoint is not None)


@dataclass(frozen=True)
class EvaluatedSide:
    """The replies of an endpoint, and their cost."""

    rollouts: SideRollouts
    facts: Facts
    journal: Journal | None
    dollars: float


def run(options: argparse.Namespace) -> int:
    """Compare, write the reports, and return the exit code: 0 better, 1 worse, 3 not decided."""
    root = options.root.absolute()
    repository = Repository.load(root, [options.name])
    (name,) = repository.select([options.name])
    repository = beside_key(repository, [name])
    entry, package = repository.registry.environments[name], repository.packages[name]
    sides = TwoSides(
        side_of(root, package, "before", options.before, options.after),
        side_of(root, package, "after", options.after, options.before),
    )
    if (sides.before.kind, sides.before.name) == (sides.after.kind, sides.after.name):
        raise RunRefused(f"before and after are both {options.before}: there is nothing to compare")
    comparison = Comparison(root, entry, package, options, threading.Event(), sides)
    _refuse_to_overwrite(comparison)
    with terminated_like_interrupted():
        report, journals = _compared(comparison)
    _write(report, comparison)
    for journal in journals:
        journal.forget()
    return exit_codes.OF_VERDICT[report.verdict]


def _refuse_to_overwrite(comparison: Comparison) -> None:
    """Raise `RunRefused` if the rollouts of one side would replace the file of the other side."""
    before, after = comparison.sides
    for asked, read in ((before, after), (after, before)):
        if asked.endpoint is None or read.path is None:
            continue
        splits: tuple[Split, ...] = ("train", "eval")
        files = (replace(comparison, split=split).rollouts_file(asked) for split in splits)
        if any(written.exists() and written.samefile(read.path) for written in files):
            raise RunRefused(f"{read.name}: the rollouts of {asked.name} would overwrite it; compare a copy")


def _compared(comparison: Comparison) -> tuple[ComparisonReport, list[Journal]]:
    """Both sides on the same tasks; unequal settings are refused before anything is spent."""
    facts, held = _on_file(comparison)
    comparison = replace(comparison, split=_split(comparison, facts, held))
    if facts is not None and comparison.split == "eval":
        facts = replace(facts, tasks=_held_out_tasks(comparison))
    sides = sampled_alike(comparison.sides, held)
    comparison = replace(comparison, sides=sides)
    differs = sampling_difference(sides.each(lambda side: sampling_of_side(side, held)))
    if differs and not comparison.options.any_sampling:
        raise RunRefused(
            f"sampled differently: {differs}.\nMake them equal, or compare them anyway with --any-sampling."
        )
    asked = _size(comparison, facts, held)
    evaluated = _evaluate(comparison, asked)
    rollouts = held | {place: each.rollouts for place, each in evaluated.items()}
    known = next((each.facts for each in evaluated.values()), facts)
    assert known is not None
    dollars = {place: each.dollars for place, each in evaluated.items()}
    notes = [_tasks_note(comparison), *([f"sampled differently: {differs}"] if differs else [])]
    judges = [sorted({row.judge or "no declared judge" for row in rollouts[side.side].rows}) for side in sides]
    if judges[0] != judges[1]:
        notes.append(f"judged differently: {', '.join(judges[0])} before and {', '.join(judges[1])} after")
    if not all(rollouts[side.side].sampling for side in sides):
        notes.append("one side has no record of how it was sampled")
    report = _report(comparison, known, rollouts, dollars, notes)
    return report, [each.journal for each in evaluated.values() if each.journal is not None]


def _on_file(comparison: Comparison) -> tuple[Facts | None, dict[SideName, SideRollouts]]:
    """The rollouts of sides that are files, and their required environment."""
    files = [side for side in comparison.sides if side.endpoint is None]
    if not files:
        return None, {}
    entry, package = comparison.entry, comparison.package
    known = known_environment(entry, package, Workspace(comparison.root), comparison.options)
    if known.description is None:
        failure = next(iter(known.failures.values()), None)
        message = f"{failure.type}: {failure.message}" if failure else "it does not load"
        raise RunRefused(f"{entry.name}: {message}\nfor more: envwright schema {entry.name}", exit_codes.FAIL)
    return known, {side.side: rollouts_on_file(side, entry, package, known) for side in files}


def _split(comparison: Comparison, facts: Facts | None, held: Mapping[SideName, SideRollouts]) -> Split:
    """The split of the sides that are files, or the requested one, or the evaluation split if there is one."""
    trained_on = () if facts is None else facts.tasks
    splits = [(each.side.name, split_of_side(each, trained_on)) for each in held.values()]
    return common_split(splits, comparison.options.split, "eval" if comparison.has_evaluation_split else "train")


def _held_out_tasks(comparison: Comparison) -> tuple[Task, ...]:
    """The tasks for evaluation, which facts do not hold."""
    entry, package, options = comparison.entry, comparison.package, comparison.options
    workspace = Workspace(comparison.root)
    with (
        breaking_off(entry.name, comparison.stop),
        opened_environment(entry, package, workspace, options.allow_network, comparison.stop) as opened,
    ):
        listed = opened.worker.request("listing", LOAD_SECONDS, limit=MOST_TASKS, asked=0, split="eval")
        tasks = tuple(checked(Task, value) for kind, value in listed if kind == "task")
        require_tasks(entry, OpenedTasks(opened.description, tasks), "eval")
        return tasks


def _tasks_note(comparison: Comparison) -> str:
    """The tasks that both sides are compared on, and how to have others."""
    played = TASKS_PLAYED[comparison.split]
    if comparison.split == "eval":
        return f"{played} (--split train: those to train on)"
    return f"{played} " + (
        "(--split eval: those held out)" if comparison.has_evaluation_split else "(no others declared)"
    )


def _size(comparison: Comparison, facts: Facts | None, held: Mapping[SideName, SideRollouts]) -> EvaluationSize | None:
    """The tasks for endpoints: those of the other side, or the number that the package declares."""
    if not comparison.endpoints:
        return None
    tasks, rollouts = default_tasks(comparison.package)
    indices: tuple[int, ...] = ()
    options = comparison.options
    for there in held.values():
        assert facts is not None
        places = {task_key(task.prompt, task.data): task.index for task in facts.tasks[:MOST_TASKS]}
        indices = tuple(sorted({places[row.task_key] for row in there.rows if row.task_key in places}))
        indices = indices[: options.tasks or len(indices)]
        if not indices:
            raise RunRefused(
                f"{there.side.name}: none of its tasks is among the first {MOST_TASKS} of {facts.environment}"
            )
        tasks, rollouts = len(indices), there.rollouts
    asked = requested_of(options, comparison.endpoints[0], tasks, rollouts)
    return replace(asked, tasks=len(indices) or asked.tasks, indices=indices, split=comparison.split)


def _evaluate(comparison: Comparison, asked: EvaluationSize | None) -> dict[SideName, EvaluatedSide]:
    """The sides that are endpoints, one after the other, together below one ceiling."""
    if comparison.endpoints:
        scripted = comparison.options.scripted_judge
        judge_endpoint(comparison.root, comparison.entry, comparison.package, scripted=scripted)
    served = [side for side in comparison.sides if side.to_serve is not None]
    with ExitStack() as servers:
        if len(served) == 1:  # nothing is spent on the other side before this one is there
            servers.enter_context(_served(comparison, served[0]))
        return _evaluate_endpoints(comparison, asked, one_by_one=len(served) > 1)


@contextmanager
def _served(comparison: Comparison, side: ComparisonSide) -> Iterator[None]:
    """The result of a run at its endpoint, until the block ends."""
    kept, endpoint = side.to_serve, side.endpoint
    assert kept is not None
    assert endpoint is not None
    port = int(endpoint.url.removesuffix("/v1").rpartition(":")[2])
    try:
        command = server_command(kept, port)
        print_message(f"{kept.name}: serving {kept.folder or kept.spec.model}\n{shlex.join(command)}")
        with ModelServer(command, endpoint, comparison.root, comparison.stop, print_message):
            yield
    except NoServer as error:
        raise RunRefused(f"{kept.name}: {error}", exit_codes.ERROR) from None


def _evaluate_endpoints(
    comparison: Comparison, asked: EvaluationSize | None, *, one_by_one: bool
) -> dict[SideName, EvaluatedSide]:
    """The sides that are endpoints; `one_by_one` serves each result in its turn, as one GPU holds one model."""
    ceilings = [ceiling_of(comparison.options, endpoint) for endpoint in comparison.endpoints]
    ceiling = ceilings[0] if ceilings else None
    for endpoint in () if one_by_one else comparison.endpoints[1:]:
        with relay_for(endpoint, ceiling):
            pass  # a test call: nothing is spent on the other side before it succeeds
    found: dict[SideName, EvaluatedSide] = {}
    for side in comparison.sides:
        if side.endpoint is not None and asked is not None:
            dollars = sum(each.dollars for each in found.values())
            left = None if ceiling is None else max(0.0, ceiling - dollars)
            with _served(comparison, side) if one_by_one else nullcontext():
                found[side.side] = _evaluated(comparison, side, side.endpoint, asked, left, first=not found)
    return found


def _evaluated(
    comparison: Comparison,
    side: ComparisonSide,
    endpoint: Endpoint,
    asked: EvaluationSize,
    ceiling: float | None,
    *,
    first: bool,
) -> EvaluatedSide:
    entry, package, options = comparison.entry, comparison.package, comparison.options
    endpoint = at_concurrency(endpoint, options)
    path = comparison.rollouts_file(side)
    with relay_for(endpoint, ceiling, options.seed) as relay:

        def begin(opened: OpenedTasks) -> None:
            if first:
                _approve_both(comparison, opened, asked, ceiling)
            approve(entry, opened, relay, replace(asked, max_concurrent=endpoint.concurrency))
            path.unlink(missing_ok=True)
            meter.writer = files.enter_context(ResultsWriter(path))

        try:
            with ExitStack() as files, breaking_off(entry.name, comparison.stop), _judge(comparison) as judge:
                meter = EvaluationProgress(f"{entry.name}, {side.name}", None, relay, options.quiet)
                evaluated = evaluate_speaker(
                    entry,
                    package,
                    Workspace(comparison.root),
                    relay,
                    replace(asked, max_concurrent=endpoint.concurrency),
                    comparison.stop,
                    approve=begin,
                    seen=meter.seen,
                    judge=judge,
                    allow_network=options.allow_network,
                    keep=True,
                )
                if cut_short := judge_cut_short(judge):
                    raise RunRefused(f"{side.name}: {cut_short}", exit_codes.INCONCLUSIVE)
        finally:
            print_message(f"{side.name}: {spent(relay.spending, endpoint)}")
        if relay.refusal is not None:
            raise refused_by(relay.refusal)
        if relay.ceiling_reached:
            again = "paid calls are kept: the same command continues with a higher --max-cost"
            raise RunRefused(f"{side.name}: cut short by the ceiling; {again}", exit_codes.INCONCLUSIVE)
        cost = relay.spending.cost
    print_message(f"{side.name}: every rollout is in {path}")
    return EvaluatedSide(SideRollouts(side, evaluated.rows), evaluated.facts, evaluated.journal, cost)


def _judge(comparison: Comparison) -> AbstractContextManager[Judge]:
    scripted = comparison.options.scripted_judge
    return judge_of(comparison.root, comparison.entry, comparison.package, scripted=scripted)


def _approve_both(comparison: Comparison, opened: OpenedTasks, asked: EvaluationSize, ceiling: float | None) -> None:
    """Refuse a comparison whose sides together could cost more than the ceiling."""
    prompts, conversational = [task.prompt for task in opened.tasks], opened.description.conversational
    bounds = [
        (estimate(endpoint, prompts, asked.rollouts, conversational=conversational), endpoint)
        for endpoint in comparison.endpoints
    ]
    total = sum(bound.cost or 0.0 for bound, _ in bounds)
    if ceiling is not None and len(bounds) > 1 and total > ceiling:
        message = "\n".join(described(bound, endpoint) for bound, endpoint in bounds)
        raise RunRefused(
            f"refused: both sides could cost ${total:.4f}, --max-cost is ${ceiling:g}.\n{message}\n"
            "Request fewer tasks (-n) or rollouts (-r), lower max_tokens of the endpoints, or raise --max-cost."
        )


def _report(
    comparison: Comparison,
    facts: Facts,
    rollouts: Mapping[SideName, SideRollouts],
    dollars: Mapping[SideName, float],
    notes: list[str],
) -> ComparisonReport:
    entry, package = comparison.entry, comparison.package
    sides = comparison.sides.each(lambda side: rollouts[side.side])
    spoken = replace(facts, rollouts=tuple(row.as_rollout() for side in sides for row in side.rows))
    declared, confidence = declared_range(package, spoken), entry.gates.distribution.confidence
    samples = sides.each(lambda side: _sample(side, declared, confidence))
    found = before_after(samples)
    for name, count in found.unpaired.named:
        if count:
            notes.append(f"{count} tasks have a reward only {name}, and count on neither side of a pair")
    if any(sample.is_scripted for sample in samples):
        notes.append("a scripted policy answered: the result does not measure a model")
    known = {task_key(task.prompt, task.data): task for task in facts.tasks}
    return ComparisonReport(
        environment=entry.name,
        digest=package.digest,
        answer=found.answer,
        reason=found.reason,
        confidence=confidence,
        range=(declared.minimum, declared.maximum),
        difference=interval_of(found.difference),
        before=_side(sides.before, samples.before, interval_of(found.means.before), dollars),
        after=_side(sides.after, samples.after, interval_of(found.means.after), dollars),
        functions=_functions(found),
        tasks=tuple(
            _task(known.get(each.key), each.key, each.before, each.after, each.rollouts) for each in found.tasks
        ),
        only_before=found.unpaired.before,
        only_after=found.unpaired.after,
        split=comparison.split,
        notes=tuple(notes),
        tool_version=__version__,
    )


def _sample(side: SideRollouts, declared: DeclaredRange, confidence: float) -> RolloutSample:
    """The rollouts of a side, its tasks named by what they hold."""
    outcomes = tuple(replace(outcome_of_rollout(row.as_rollout()), task=row.task_key) for row in side.rows)
    return RolloutSample(side.speaker, outcomes, declared, confidence, side.model)


def _side(
    side: SideRollouts, sample: RolloutSample, mean: Interval | None, dollars: Mapping[SideName, float]
) -> SideReport:
    source = side.side
    return SideReport(
        name=source.name,
        kind=source.kind,
        speaker=side.speaker,
        scripted=sample.is_scripted,
        rollouts=sample.attempted,
        scored=len(sample.scored),
        tasks=len({row.task_key for row in side.rows}),
        mean=mean,
        truncated=sum(each.truncated for each in sample.outcomes) / max(1, sample.attempted),
        tokens=_tokens(side.rows),
        sampling=dict(side.sampling),
        date=side.date,
        cost=dollars.get(source.side),
    )


def _tokens(rows: tuple[EvaluationRow, ...]) -> float | None:
    known = [row.tokens.completion for row in rows if row.tokens is not None]
    return sum(known) / len(known) if known else None


def _functions(found: BeforeAfter) -> tuple[FunctionReport, ...]:
    return tuple(
        FunctionReport(
            each.name,
            each.kind,
            each.weight,
            each.before,
            each.after,
            interval_of(each.difference),
        )
        for each in found.functions
    )


def _task(task: Task | None, key: str, before: float, after: float, rollouts: tuple[int, int]) -> TaskReport:
    content = task.prompt[-1].get("content") if task is not None and task.prompt else ""
    prompt = content if isinstance(content, str) else str(content)
    return TaskReport(task.index if task else None, key, prompt[:300], before, after, rollouts)


def _write(report: ComparisonReport, comparison: Comparison) -> None:
    folder, options = comparison.reports / FOLDER, comparison.options
    written = {"json": render_json(report), "markdown": render_markdown(report)}
    write_report(folder / f"{report.file}.json", written["json"])
    write_report(folder / f"{report.file}.md", written["markdown"])
    refresh_page(comparison.reports)
    print_report(
        options.format,
        written,
        lambda width, colour: render_text(report, width=width, colour=colour, quiet=options.quiet),
    )
