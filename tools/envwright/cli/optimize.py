"""`envwright optimize NAME --model M`: a better system prompt, by the GEPA of the environment's own verifiers."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from envwright import __version__, exit_codes
from envwright.cli import arguments
from envwright.cli.selection import beside_key
from envwright.declarations.endpoints import Endpoint
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.limits import LOAD_SECONDS, TASKS_SCORED
from envwright.facts.observed import Dataset, Description, Task
from envwright.files.atomic_write import write_whole
from envwright.models.model_evaluation import RunRefused
from envwright.models.model_run import (
    breaking_off,
    ceiling_of,
    judge_cut_short,
    judge_endpoint,
    judge_of,
    price_source,
    refused_by,
    relay_for,
    relay_to,
    spent,
)
from envwright.models.prime_inference import endpoint_named
from envwright.models.prompt_optimization import NoGepa, Optimized, SearchBudget, estimate_of_search, optimize_prompt
from envwright.models.prompt_placing import NotPlaceable, Placement, placement
from envwright.models.relay import Relay
from envwright.models.spending import CostEstimate
from envwright.observing.job import checked
from envwright.observing.opened_environment import opened_environment
from envwright.packages.repository import Repository
from envwright.reports.before_after import interval_of
from envwright.reports.optimized import (
    CandidateReport,
    OptimizationReport,
    files,
    render_json,
    render_markdown,
    render_text,
)
from envwright.reports.printing import print_message, print_report, write_report
from envwright.statistics.clusters import paired_difference
from envwright.system.subprocesses import ProgramFailed, terminated_like_interrupted
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright optimize date-arithmetic --model qwen3-30b                      shows the change, writes nothing
  envwright optimize date-arithmetic --model qwen3-30b --max-calls 300 --max-cost 2 --write
  envwright optimize date-arithmetic --model qwen3-30b --reflection-model openai/gpt-5      another model reflects
  envwright optimize gsm8k --model qwen3-30b --initial-prompt "Think step by step."     v1 without a system prompt
"""

CALLS, TRAIN, VALIDATION, MINIBATCH = 500, 100, 50, 3
"""The defaults of verifiers' own command: rollouts, tasks of either kind, and tasks of one reflection."""
LONGEST_SECONDS = 6 * 3600.0
SECONDS_PER_CALL = 60.0
OF_SEVERAL_AGENTS = ("multi-agent", "--env.agent")
"""The error of verifiers for an environment whose agents are not the one that GEPA knows."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the environment")
    arguments.root(command)
    arguments.model_name(
        command,
        "the model that plays and reflects: of configs/endpoints.toml, or owner/model of Prime Inference",
        required=True,
    )
    budget = command.add_argument_group("budget", "shown before the start, and refused above the limit")
    budget.add_argument(
        "--max-calls",
        type=arguments.positive,
        default=CALLS,
        metavar="N",
        help=f"maximum number of rollouts (default: {CALLS})",
    )
    arguments.max_cost(budget, "the search")
    budget.add_argument(
        "--train-tasks", type=arguments.positive, metavar="N", help="training tasks, for reflections (default: 100)"
    )
    budget.add_argument(
        "--validation-tasks", type=arguments.positive, metavar="N", help="tasks to score candidates on (default: 50)"
    )
    gepa = command.add_argument_group("reflections", "of GEPA, with the defaults of verifiers")
    gepa.add_argument("--reflection-model", metavar="NAME", help="another model that proposes prompts")
    gepa.add_argument(
        "--minibatch-size",
        type=arguments.positive,
        default=MINIBATCH,
        metavar="N",
        help=f"training tasks of one reflection (default: {MINIBATCH})",
    )
    gepa.add_argument("--columns", metavar="A,B", default="", help="further fields of rollouts that it reads")
    gepa.add_argument(
        "--perfect-score", type=float, metavar="REWARD", help="v0: no reflection on minibatches with this reward"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="of GEPA's own choices (default: 0)")
    command.add_argument("--initial-prompt", metavar="TEXT", help="v1: initial prompt for tasks without one")
    command.add_argument("--write", action="store_true", help="write the better prompt into the source")
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="only the answer and the change of the prompt")
    arguments.network(command, "the environment", "it loads")
    arguments.reports(command, "prompts/ goes")


@dataclass(frozen=True)
class PromptSearch:
    """One search, before its start."""

    root: Path
    entry: EnvironmentEntry
    package: Package
    options: argparse.Namespace
    stop: threading.Event
    reflects: Endpoint | None
    """The model that reflects, if it is another one."""

    @property
    def reports(self) -> Path:
        folder: Path = self.options.reports or self.root / "reports"
        return folder


def run(options: argparse.Namespace) -> int:
    """Search, show the result, write it if requested, and return the exit code."""
    root = options.root.absolute()
    repository = Repository.load(root, [options.name])
    (name,) = repository.select([options.name])
    repository = beside_key(repository, [name])
    entry, package = repository.registry.environments[name], repository.packages[name]
    reflects = endpoint_named(root, options.reflection_model) if options.reflection_model else None
    if reflects is not None:
        ceiling_of(options, reflects)  # which refuses one without prices
    search = PromptSearch(root, entry, package, options, threading.Event(), reflects)
    judge_endpoint(root, entry, package, scripted=False)
    with terminated_like_interrupted(), relay_to(root, options) as relay:
        report = _optimized(search, relay)
    _show(report, search)
    if options.write and report.placed == "not-placeable":
        print_message(f"nothing was written: {report.place}")
        return exit_codes.USAGE
    return exit_codes.OF_VERDICT[report.verdict]


def _optimized(search: PromptSearch, relay: Relay) -> OptimizationReport:
    """The search and its result; both relays report what they spent."""
    budget, bound, reflections = _approved(search, relay)
    try:
        judging = judge_of(search.root, search.entry, search.package, scripted=False)
        reflecting = _reflecting(search, relay, bound, reflections)
        with breaking_off(search.entry.name, search.stop), reflecting as reflects, judging as judge:
            real_judge = judge if isinstance(judge, Relay) else None
            relays = [relay, *([reflects] if reflects is not relay else []), *([real_judge] if real_judge else [])]
            found = _searched(search, relays, reflects, real_judge, budget, bound)
            cut_short = judge_cut_short(judge)
    finally:
        print_message(spent(relay.spending, relay.endpoint))
    return _report(search, relays, found, cut_short)


@contextmanager
def _reflecting(search: PromptSearch, relay: Relay, bound: CostEstimate, reflections: float) -> Iterator[Relay]:
    """The relay to the model that reflects, which gets what the rollouts cannot need of the limit."""
    if search.reflects is None:
        yield relay
        return
    share = None
    if relay.ceiling is not None and bound.cost is not None:
        share = relay.ceiling - (bound.cost - reflections)
        relay.leave(share)
    with relay_for(search.reflects, share) as reflects:
        try:
            yield reflects
        finally:
            print_message(f"reflections: {spent(reflects.spending, reflects.endpoint)}")


def _approved(search: PromptSearch, relay: Relay) -> tuple[SearchBudget, CostEstimate, float]:
    """The cost estimate, and of it that of reflections, printed before anything is spent.

    Raises `RunRefused` above the ceiling.
    """
    description, tasks = _looked_at(search)
    budget = _budget(search, description, tasks, relay.endpoint.concurrency)
    reflects = search.reflects or relay.endpoint
    conversational = description.conversational
    bound, reflections = estimate_of_search(relay.endpoint, reflects, tasks, budget, conversational=conversational)
    source = price_source(relay.endpoint)
    cost = "no price configured" if bound.cost is None else f"at most ${bound.cost:.4f}{source}"
    message = (
        f"{search.entry.name}: GEPA with {budget.train} training and {budget.validation} validation tasks, stopping at "
        f"{budget.calls} rollouts (the last round may make {budget.most_calls - budget.calls} more), at most "
        f"{budget.reflections} reflections by {reflects.model} at {reflects.name}: "
        f"at most {bound.tokens.prompt:,} tokens sent and {bound.tokens.completion:,} received, {cost}"
    )
    if relay.ceiling is not None and bound.cost is not None and bound.cost > relay.ceiling:
        raise RunRefused(
            f"refused: {message}; --max-cost is ${relay.ceiling:g}.\n"
            "Request fewer rollouts (--max-calls), lower max_tokens of the endpoint, or raise --max-cost."
        )
    print_message(message)
    return budget, bound, reflections


def _looked_at(search: PromptSearch) -> tuple[Description, tuple[Task, ...]]:
    entry, package, options = search.entry, search.package, search.options
    workspace = Workspace(search.root)
    with (
        breaking_off(entry.name, search.stop),
        opened_environment(entry, package, workspace, options.allow_network, search.stop) as opened,
    ):
        parts = list(opened.worker.request("tasks", LOAD_SECONDS, keep=TASKS_SCORED))
        tasks = tuple(checked(Task, value) for kind, value in parts if kind == "task")
        datasets = tuple(checked(Dataset, value) for kind, value in parts if kind == "dataset")
        return replace(opened.description, datasets=datasets), tasks


def _budget(search: PromptSearch, description: Description, tasks: tuple[Task, ...], concurrency: int) -> SearchBudget:
    options, name = search.options, search.entry.name
    size = description.datasets[0].size if len(description.datasets) == 1 else None
    train, validation = _tasks_of_each_kind(options, size if description.generation == "v1" else None)
    prompted = any(task.data.get("system_prompt") or _has_system(task) for task in tasks)
    if description.generation == "v1":
        if size is not None and train + validation > size:
            raise RunRefused(
                f"{name} has {size} tasks: {train} --train-tasks and {validation} --validation-tasks are more.\n"
                "Lower one of them; without both, the tasks are divided."
            )
        if not prompted and options.initial_prompt is None:
            raise RunRefused(
                f"no task of {name} has a system prompt: its instructions are in the prompt itself, which GEPA does "
                "not change.\nPass --initial-prompt TEXT to search for one that precedes it, or set system_prompt in "
                "the task's data."
            )
        if options.perfect_score is not None:
            raise RunRefused("--perfect-score is for v0: verifiers' GEPA of v1 reflects on every minibatch")
    elif options.initial_prompt is not None:
        raise RunRefused(
            "--initial-prompt is for v1: verifiers' GEPA of v0 starts from the environment's system_prompt"
        )
    seconds = min(LONGEST_SECONDS, max(900.0, options.max_calls / concurrency * SECONDS_PER_CALL * 2))
    return SearchBudget(
        calls=options.max_calls,
        train=train,
        validation=validation,
        seconds=seconds,
        seed=options.seed,
        minibatch=options.minibatch_size,
        perfect_score=options.perfect_score,
        columns=tuple(filter(None, options.columns.split(","))),
        initial_prompt=options.initial_prompt,
    )


def _tasks_of_each_kind(options: argparse.Namespace, size: int | None) -> tuple[int, int]:
    """Training and validation tasks: as requested, or the defaults, in their proportion where there are fewer."""
    train, validation = options.train_tasks, options.validation_tasks
    if train is validation is None and size is not None and size < TRAIN + VALIDATION:
        train = max(1, size * TRAIN // (TRAIN + VALIDATION))
        return train, max(1, size - train)
    return train or TRAIN, validation or VALIDATION


def _has_system(task: Task) -> bool:
    return bool(task.prompt) and task.prompt[0].get("role") == "system"


def _searched(
    search: PromptSearch,
    relays: Sequence[Relay],
    reflects: Relay,
    judge: Relay | None,
    budget: SearchBudget,
    bound: CostEstimate,
) -> Optimized:
    relay = relays[0]
    entry, package, options = search.entry, search.package, search.options
    workspace = Workspace(search.root)

    def seen(rollouts: int) -> None:
        if not options.quiet:
            print_message(f"{entry.name}: {_progress(rollouts, budget, [relay, reflects], bound)}")

    try:
        return optimize_prompt(
            entry,
            package,
            workspace,
            relay,
            reflects,
            budget,
            search.stop,
            seen=seen,
            judge=judge.base_url if judge else None,
            allow_network=options.allow_network,
        )
    except NoGepa as error:
        raise RunRefused(
            f"the lock of {entry.name} has no GEPA for {package.generation}: {error}\n"
            "It comes with verifiers from 0.3.1 on. Raise verifiers there (envwright lock), "
            f"or move the environment with envwright migrate {entry.name}."
        ) from None
    except ProgramFailed as error:
        for each in relays:
            if each.refusal is not None and each is not judge:
                raise refused_by(each.refusal) from None
        message = error.failure.message
        for each in relays:
            message = str(each.scrub(message))
        if any(word in message for word in OF_SEVERAL_AGENTS) and not relay.spending.calls:
            raise RunRefused(
                f"{entry.name} has several agents: verifiers' GEPA changes the prompt of one, and refuses it"
            ) from None
        raise RunRefused(f"{entry.name}: verifiers' GEPA failed:\n{message}", exit_codes.ERROR) from None


def _progress(rollouts: int, budget: SearchBudget, relays: Sequence[Relay], bound: CostEstimate) -> str:
    """The progress of a search, with its cost and the limit."""
    spending = [relay.spending for relay in dict.fromkeys(relays)]
    calls, dollars = sum(each.calls for each in spending), sum(each.cost for each in spending)
    cost = "" if bound.cost is None else f", ${dollars:.4f} of at most ${bound.cost:.4f}"
    return f"{rollouts:,} of {budget.calls:,} rollouts, {calls:,} calls of at most {bound.calls:,}{cost}"


def _report(search: PromptSearch, relays: Sequence[Relay], found: Optimized, judge_cut: str) -> OptimizationReport:
    """The report; `relays` begin with the model's, and `judge_cut` is why verdicts of a judge are missing."""
    relay = relays[0]
    before, after = found.candidates[0], found.candidates[found.best]
    subscores = (found.subscores[0], found.subscores[found.best])
    confidence = search.entry.gates.distribution.confidence
    difference = paired_difference(subscores[1], subscores[0], confidence) if found.best else None
    spent_by_gepa = sum(each.spending.cost for each in relays[: 2 if search.reflects else 1])
    lost = sum(each.spending.failed + each.spending.refused for each in relays)
    better = found.scores[found.best] > found.scores[0] and after != before
    report = OptimizationReport(
        environment=search.entry.name,
        digest=search.package.digest,
        model=relay.endpoint.model,
        verdict="pass" if better and not lost else "inconclusive",
        reason="a better prompt was found" if better else "no prompt did better on the validation tasks",
        before=before,
        after=after,
        scores=(found.scores[0], found.scores[found.best]),
        difference=interval_of(difference),
        validation_tasks=len(subscores[0]),
        candidates=tuple(map(CandidateReport, found.candidates, found.scores)),
        rollouts=found.calls,
        cost=spent_by_gepa if relay.endpoint.has_prices else None,
        tool_version=__version__,
    )
    if lost:
        why = f"{lost} calls got no answer, and GEPA counts their rollouts as 0: no score here can be trusted"
        report = replace(report, reason=why)
        ended = judge_cut or ("the ceiling was reached" if relay.ceiling_reached else "")
        return replace(report, reason=f"{why}; {ended}") if ended else report
    return _placed(search, report) if better else report


def _placed(search: PromptSearch, report: OptimizationReport) -> OptimizationReport:
    folder = search.package.folder
    begun = search.options.initial_prompt
    try:
        if begun is not None:
            raise NotPlaceable("it started from --initial-prompt: set system_prompt in the data of the tasks")
        place = placement(folder, report.before, report.after)
    except NotPlaceable as error:
        saved = files(search.reports, report.environment)[1]
        why = f"{error}; the new prompt is in {saved}"
        return replace(report, placed="not-placeable", place=why)
    patch = place.diff(search.root)
    at = f"{place.path.relative_to(search.root)}:{place.line}"
    if not search.options.write:
        return replace(report, placed="placeable", place=f"{at}; --write writes it there", patch=patch)
    return _written(search, report, place, patch, at)


def _written(
    search: PromptSearch, report: OptimizationReport, place: Placement, patch: str, at: str
) -> OptimizationReport:
    write_whole(place.path, place.text)
    bump = f"the package changed: envwright bump {search.entry.name} --minor, and validate it again"
    return replace(report, placed="written", place=at, patch=patch, notes=(*report.notes, bump))


def _show(report: OptimizationReport, search: PromptSearch) -> None:
    options = search.options
    report_file, prompt = files(search.reports, report.environment)
    written = {"json": render_json(report), "markdown": render_markdown(report)}
    write_report(report_file, written["json"])
    write_report(prompt, report.after)
    print_report(
        options.format,
        written,
        lambda width, colour: render_text(report, width=width, colour=colour, quiet=options.quiet),
    )
