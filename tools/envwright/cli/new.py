"""`envwright new`: create an environment that passes all gates."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from envwright import exit_codes
from envwright.authoring.dataset.huggingface import open_hub
from envwright.authoring.dataset.layout import AnswerFormat, Example
from envwright.authoring.dataset.recognition import Recognised, layout_as, recognise
from envwright.authoring.dataset.roles import Columns, columns_of, fields_of
from envwright.authoring.dataset.source import DatasetSource, numbered, open_local
from envwright.authoring.dataset.summary import recommended_kind
from envwright.authoring.new.gather import FEWEST_TO_DIVIDE, HELD_OUT, Gathered, gather, sample, with_held_out, words_of
from envwright.authoring.new.plan import NAME, DataOrigin, EnvironmentKind, EnvironmentPlan
from envwright.authoring.new.render import files_of, ignored_by
from envwright.authoring.new.wording import declared_by
from envwright.authoring.new.write import NotWritten, refuse_taken, usual_owners, write
from envwright.cli import arguments
from envwright.cli.inspect import add_hub_arguments
from envwright.cli.questions import answer, can_ask
from envwright.declarations.package import Generation
from envwright.declarations.references import reason_against_name
from envwright.declarations.registry import Registry, load_registry
from envwright.system.subprocesses import ProgramFailed
from envwright.text.plain_data import counted

EXAMPLES = """examples:
  envwright new capital-cities --data questions.jsonl     kind and answer as inspect finds them
  envwright new capital-cities --kind tool --answer number
  envwright new grade-school --dataset openai/gsm8k --config main
  envwright new                                           prompts for the choices, on a terminal
"""

KINDS, ANSWERS = get_args(EnvironmentKind), get_args(AnswerFormat)
MOST_ROWS = 10_000
"""Rows of a split that go into a package; it is uploaded and installed as a whole."""
FEWEST_ROWS = 4


class Once(argparse.Action):
    """An option that may be given once: of two columns only the last would be used."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"argument {option}: is given twice; name one column")
        setattr(namespace, self.dest, values)


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", nargs="?", metavar="NAME", help="lower case, words joined by hyphens")
    source = command.add_mutually_exclusive_group()
    source.add_argument("--data", metavar="FILE", help="a local file or folder; its rows go into the package")
    source.add_argument(
        "--dataset", metavar="DATASET", help="a Hub dataset; its rows at one commit go into the package"
    )
    add_hub_arguments(command)
    command.add_argument("--kind", choices=KINDS, help="kind of environment (default: detected from the data)")
    command.add_argument("--answer", choices=ANSWERS, help="type of answer (default: detected from the data)")
    command.add_argument(
        "--question", metavar="COLUMN", action=Once, help="the column with the question (default: as detected)"
    )
    command.add_argument(
        "--solution", metavar="COLUMN", action=Once, help="the column with the answer (default: as detected)"
    )
    command.add_argument("--v0", action="store_true", help="for verifiers 0.3: load_environment() instead of a Taskset")
    command.add_argument(
        "--owner", action="append", metavar="@OWNER", help="reviewers (default: those of its siblings)"
    )
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    """Write the environment; its choices are printed on standard error."""
    root = options.root
    try:
        registry = load_registry(root)
        if options.name is None:
            _prompt(options)
        plan = _planned(options, registry, root)
        owners = tuple(options.owner or usual_owners(registry))
        written = write(root, plan.name, files_of(plan), plan.generation, owners, ignored_by(plan), declared_by(plan))
    except ProgramFailed as error:
        print(f"uv could not resolve the lock, and nothing was written:\n{error.failure.message}", file=sys.stderr)
        return exit_codes.ERROR
    print(f"{plan.name}: {plan.kind}, {plan.answer}, {plan.generation}")
    for path in written:
        print(f"  {path}")
    print(f"\nnext: envwright validate {plan.name}")
    return exit_codes.PASS


def _planned(options: argparse.Namespace, registry: Registry, root: Path) -> EnvironmentPlan:
    """The environment to write, from the arguments and the data."""
    name = options.name
    if not NAME.fullmatch(name):
        raise NotWritten(
            f"{name!r} is not a valid name: use lower-case letters and digits, in words joined by single hyphens."
        )
    if why := reason_against_name(name):
        raise NotWritten(f"{name!r} is not a valid name: {why}. Choose another one.")
    refuse_taken(root, registry, name)
    generation: Generation = "v0" if options.v0 else "v1"
    if options.v0 and options.kind == "multi-agent":
        raise NotWritten("verifiers 0.3 supports one agent only. Leave out --v0 for several.")
    if options.data is None and options.dataset is None:
        return _from_sample(name, options, generation)
    return _from_data(name, options, generation)


def _from_sample(name: str, options: argparse.Namespace, generation: Generation) -> EnvironmentPlan:
    kind: EnvironmentKind = options.kind or "single-turn"
    usual: dict[str, AnswerFormat] = {"code": "code", "judge": "text"}
    answer: AnswerFormat = options.answer or usual.get(kind, "number")
    examples = sample(answer)
    provenance = DataOrigin("a sample", made_up=True)
    return EnvironmentPlan(name, kind, answer, generation, {"train": examples}, provenance, words_of(answer, examples))


def _from_data(name: str, options: argparse.Namespace, generation: Generation) -> EnvironmentPlan:
    if options.dataset:
        source = open_hub(options.dataset, options.config or "", options.split or "", options.revision or "")
    else:
        source = open_local(Path(options.data), options.split or "")
    rows = {split.name: list(numbered(split, MOST_ROWS)) for split in source.splits}
    first = max(rows.values(), key=len)
    columns = columns_of([row for _, row in first])
    asked = (options.question or "", options.solution or "")
    _refuse_unknown(columns, options)
    found = layout_as(first, options.answer, *asked) if options.answer else recognise(first, *asked)
    gathered = gather(rows, found)
    examples = next(iter(gathered.splits.values()), [])
    if len(examples) < FEWEST_ROWS:
        raise NotWritten(
            f"{source.name}: {len(examples)} of {len(first)} rows can be read as {found.task}"
            f" (the first that cannot: {gathered.unreadable[0].reason if gathered.unreadable else 'none'})."
            f" An environment needs {FEWEST_ROWS}. `envwright inspect {source.name}` shows the columns; --question and"
            " --solution name them, --answer names the kind of answer."
        )
    kind: EnvironmentKind = options.kind or recommended_kind(found)
    splits = with_held_out(gathered.splits)
    _print_choices(source, found, gathered, columns, splits)
    if kind == "code" and found.layout.answer == "code" and not all(example.tests for example in examples):
        raise NotWritten(
            f"{source.name} has programs but no tests, so programs cannot be checked. Add a column"
            ' tests with assertions such as "assert add(1, 2) == 3", or choose --kind judge.'
        )
    named = source.name if options.dataset else Path(source.name).name
    provenance = DataOrigin(named, source.config, source.revision, source.details.get("licence", ""))
    everything = [example for split in splits.values() for example in split]
    words = found.layout.vocabulary or words_of(found.layout.answer, everything)
    unordered, unit = found.layout.unordered, found.layout.unit
    return EnvironmentPlan(name, kind, found.layout.answer, generation, splits, provenance, words, unordered, unit)


def _refuse_unknown(columns: Columns, options: argparse.Namespace) -> None:
    known = [*columns, *fields_of(columns)]
    for option, name in (("--question", options.question), ("--solution", options.solution)):
        if name and name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise NotWritten(f"{option}: there is no column {name!r}.{meant} The columns are {', '.join(known)}.")


def _print_choices(
    source: DatasetSource,
    found: Recognised,
    gathered: Gathered,
    columns: Columns,
    splits: Mapping[str, Sequence[Example]],
) -> None:
    roles = found.layout.roles
    chosen = roles.conversation or f"{roles.question} → {roles.answer}"
    taken = ", ".join(f"{len(examples)} for {split}" for split, examples in splits.items())
    print(f"{source.name}: {found.task} ({chosen}); examples: {taken}", file=sys.stderr)
    if len(splits) > len(gathered.splits):
        print(f"held out {len(splits[HELD_OUT])} examples, evenly spread, as the split {HELD_OUT}", file=sys.stderr)
    elif len(splits) == 1 and HELD_OUT not in splits:
        print(
            f"none are held out for evaluation: fewer than {FEWEST_TO_DIVIDE} different examples; a run that evaluates "
            "needs `eval` of the environment, or more data",
            file=sys.stderr,
        )
    if unused := [name for name in columns if name not in roles.columns]:
        print(f"columns not used: {', '.join(unused)}", file=sys.stderr)
    if gathered.unreadable:
        first = gathered.unreadable[0]
        rows = counted(len(gathered.unreadable), "row")
        print(f"left out {rows}; the first: row {first.number} {first.reason}", file=sys.stderr)
    if gathered.repeated:
        print(f"left out {counted(gathered.repeated, 'row')} with a repeated question", file=sys.stderr)


def _prompt(options: argparse.Namespace) -> None:
    """Prompt for missing choices, on a terminal.

    Raises `NotWritten` in CI and without a terminal.
    """
    if not can_ask():
        raise NotWritten("NAME is missing. For example: envwright new capital-cities --data questions.jsonl")
    options.name = answer("name, such as capital-cities")
    options.data = answer("file or folder with questions and answers (none: a sample to begin with)") or None
    options.kind = answer(f"kind: {', '.join(KINDS)} (none: what fits)", KINDS) or None
    options.answer = answer(f"answers: {', '.join(ANSWERS)} (none: what fits)", ANSWERS) or None
