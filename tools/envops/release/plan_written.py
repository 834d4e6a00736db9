"""Where a plan goes: reports/plan.json and plan.md, standard output, the job's summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from envops.files.atomic_write import write_whole
from envops.release.plan_text import render_plan_json, render_plan_markdown, render_plan_text
from envops.release.steps import REFUSED
from envops.reports.annotations import first_of_each_kind, wants_annotations, workflow_command
from envops.text.scrubbing import Scrubber
from envops.text.visible_text import fitting, without_workflow_commands

if TYPE_CHECKING:
    from envops.release.steps import Plan

Form = Literal["text", "json", "markdown"]


def write_plan(plan: Plan, folder: Path, scrubber: Scrubber) -> tuple[Path, ...]:
    """Write both files, scrubbed. Raises `OSError` where that cannot be done."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"plan.json": render_plan_json(plan), "plan.md": render_plan_markdown(plan)}
    for name, text in texts.items():
        write_whole(folder / name, scrubber.text(text))
    return tuple(folder / name for name in texts)


def print_plan(plan: Plan, form: Form, scrubber: Scrubber, *, quiet: bool = False) -> None:
    """Print the plan in the chosen form; inside a GitHub job, append the page to its summary too."""
    if form == "json":
        text = render_plan_json(plan)
    else:
        text = render_plan_markdown(plan) if form == "markdown" else render_plan_text(plan, quiet=quiet)
    print_text(scrubber.text(text), guard=form != "json")
    append_to_summary(scrubber.text(render_plan_markdown(plan)))
    if wants_annotations(os.environ):
        print_text(
            scrubber.text("".join(f"{line}\n" for line in plan_annotations(plan))), guard=False, stream=sys.stderr
        )


def plan_annotations(plan: Plan) -> list[str]:
    """What the rules of versions found, and what needs a decision, as commands of GitHub's workflows."""
    commands = []
    for step in plan.steps:
        folder = f"environments/{step.desired.name.replace('-', '_')}"
        for found in plan.findings.get(step.desired.name, ()):
            if found.ignored is None:
                kind = "error" if found.severity == "error" else "warning"
                place = found.place
                file = f"{folder}/{place.file}" if place else f"{folder}/pyproject.toml"
                said = f"{found.message}\nFix: {found.fix}"
                title = f"{found.rule} {step.desired.name}"
                commands.append(workflow_command(kind, file, place.line if place else None, title, said))
        if step.action in REFUSED:
            said, title = f"{step.reason}\nNext: {step.next}", f"{step.action} {step.desired.address}"
            commands.append(workflow_command("error", f"{folder}/pyproject.toml", None, title, said))
    return first_of_each_kind(commands)


def print_text(text: str, *, guard: bool, stream: TextIO | None = None) -> None:
    """Print as far as the stream can show it, and so that GitHub's runner finds no command in it."""
    stream = stream or sys.stdout
    text = without_workflow_commands(text) if guard and wants_annotations(os.environ) else text
    stream.write(fitting(text, getattr(stream, "encoding", None)))
    stream.flush()


def append_to_summary(text: str, environ: Mapping[str, str] = os.environ) -> None:
    """Append a page to the summary of the GitHub job that this runs in, if any."""
    summary = environ.get("GITHUB_STEP_SUMMARY")
    if summary and wants_annotations(environ):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
