"""The stage `search`: a bounded search for replies that earn a reward without carrying the answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright_worker.messages import text_of

from envwright.builds.uv import uv_environment
from envwright.builds.venv import VirtualEnvironment, toolbox_for
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Cut
from envwright.facts.stages import TASKS_PLAYED, stage_named
from envwright.observing.budget import cost_of, fitting, seconds_left
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.stage import Observation, StageJob
from envwright.system.subprocesses import ProgramFailed, run_program
from envwright.system.workspace import Workspace, made_once

UNICODE_TABLES = "unicode"
SEED = 0
EVALUATIONS = 3_000
EVALUATIONS_OF_CONVERSATIONS = 1_000
FEWEST_EVALUATIONS = 200
"""A search that cannot score this many replies is not started."""
SECONDS_PER_REPLY = 2.0
SECONDS_PER_PLAY = 60.0
REQUEST_SECONDS = 120.0
UNICODE = """
import sys
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.internal.charmap import charmap
set_hypothesis_home_dir(sys.argv[1])
charmap()
"""


@dataclass(frozen=True)
class Toolbox:
    """hypothesis, and its tables of Unicode."""

    site_packages: Path
    unicode: Path
    """The folder of its tables, which take long to make; `os.devnull` if they could not be made."""


def search_toolbox(package: Package, workspace: Workspace, stop: threading.Event) -> Toolbox:
    """The toolbox of a search, created if missing. Raises the errors of `venv_for`."""
    venv = toolbox_for(package, workspace, stop)
    try:
        folder = venv.folder / UNICODE_TABLES
        tables = made_once(folder, lambda unfinished: _write_tables(venv, unfinished, stop), _has_tables, stop)
    except (ProgramFailed, OSError):
        tables = Path(os.devnull)  # the search makes its own and cannot store them
    return Toolbox(venv.site_packages, tables)


def _has_tables(folder: Path) -> bool:
    return any(folder.glob("unicode_data/*/charmap.json.gz"))


def _write_tables(venv: VirtualEnvironment, folder: Path, stop: threading.Event) -> None:
    """Write them, and check that they are there: hypothesis does not report a full disk.

    Raises `ProgramFailed` and `OSError`.
    """
    folder.mkdir()
    command: list[str | Path] = [venv.python, "-I", "-B", "-c", UNICODE, folder]
    run_program(command, environment=uv_environment(), folder=folder, seconds=REQUEST_SECONDS, stop=stop)
    if not _has_tables(folder):
        raise OSError("the character tables could not be written")


def _request(_: EnvironmentEntry, request: ObservationRequest) -> Mapping[str, Any] | None:
    """A search of a cheap reward ends by the number of evaluations, all others by time."""
    return {"seconds": stage_named("search").cost} if request.wants_whole_gate else None


def _run(observation: Observation, asked: Mapping[str, Any]) -> None:
    conversational = observation.description.conversational  # its replies are scored without a rollout
    is_skipped = observation.package.answer.type == "none"  # by the job, for want of answers
    if not conversational and not is_skipped and fitting(observation.pace, seconds_left()) < FEWEST_EVALUATIONS:
        left_out = Cut("search", "replies", 0, FEWEST_EVALUATIONS, FEWEST_EVALUATIONS * cost_of(observation.pace))
        observation.collected.add("search", "cut", left_out)
        return
    toolbox = search_toolbox(observation.package, observation.workspace, observation.stop)
    with observation.processes.job() as job:
        wrong = [reply for replies in observation.collected.kept("model replies") for reply in replies.wrong]
        texts = [text_of(reply.completion[-1]) for reply in wrong if reply.completion[-1]["role"] == "assistant"]
        reward = observation.package.reward
        messages = job.request(
            "search",
            REQUEST_SECONDS,
            toolbox=str(toolbox.site_packages),
            unicode=str(toolbox.unicode),
            replies=texts,
            conversations=TASKS_PLAYED,
            formats=reward.format,
            minimum=reward.min or 0.0,
            seed=SEED,
            evaluations=EVALUATIONS_OF_CONVERSATIONS if conversational else EVALUATIONS,
            seconds_per_reply=SECONDS_PER_REPLY,
            seconds_per_play=SECONDS_PER_PLAY,
            **asked,
        )
        observation.collected.take("search", messages)


JOBS = {"search": StageJob(_request, _run)}
