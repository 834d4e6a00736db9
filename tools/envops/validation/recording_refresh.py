"""Facts of an earlier observation, brought up to the recordings that lie there now.

A recording is no part of the digest that facts are kept under, so a new one costs a scoring
of its replies and not a whole observation.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

from envops.facts.limits import LOAD_SECONDS, TASKS_SCORED
from envops.facts.observed import Facts
from envops.repository.package import Package
from envops.repository.recordings import recordings_content
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.system.subprocesses import ProgramFailed
from envops.validation.job import StageFailed
from envops.validation.opened import opened_environment
from envops.validation.recording_check import check_recordings
from envops.validation.remembering import replace_facts


def knows_recordings(facts: Facts, package: Package) -> bool:
    """Whether facts tell of exactly the recordings that lie there now."""
    return recordings_content(package.folder) == {one.file: one.content for one in facts.recordings}


def with_recordings(
    facts: Facts,
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    allow_network: bool,
    stop: threading.Event,
) -> Facts:
    """The facts with what the present recordings are worth, remembered.

    Raises `Interrupted` when `stop` is set.
    """
    if facts.description is None or knows_recordings(facts, package):
        return facts
    if not recordings_content(package.folder):
        return replace(facts, recordings=())
    try:
        with opened_environment(entry, package, workspace, allow_network, stop) as opened:
            for _ in opened.worker.request("tasks", LOAD_SECONDS, keep=TASKS_SCORED):
                pass
            checks = check_recordings(opened.worker.request, entry, package, facts.description, facts.tasks)
    except (StageFailed, ProgramFailed) as error:
        completed = tuple(stage for stage in facts.completed if stage != "recordings")
        failures = {**facts.failures, "recordings": error.failure}
        return replace(facts, recordings=(), completed=completed, failures=failures)
    fresh = replace(facts, recordings=tuple(checks))
    with suppress(OSError):
        replace_facts(fresh, workspace)
    return fresh
