"""Training runs in a plan and after a release; `envops.training.due` decides and submits."""

from __future__ import annotations

from envops.release.steps import PlannedRun
from envops.training.due import Situation, SubmittedRun, carry_out, decided_runs


def planned_runs(situation: Situation) -> tuple[PlannedRun, ...]:
    """The planned action for each declared run."""
    return tuple(
        PlannedRun(
            each.run.spec.name, each.run.trainer.name, each.decision.action, each.decision.reason, each.decision.next
        )
        for each in decided_runs(situation)
    )


def submit_runs(situation: Situation, planned: tuple[PlannedRun, ...]) -> tuple[SubmittedRun, ...]:
    """Submit the planned runs, each once, where all of their environments are ready."""
    due = [run.name for run in planned if run.action == "submit"]
    if not due:
        return ()
    return tuple(carry_out(situation, each) for each in decided_runs(situation, due))
