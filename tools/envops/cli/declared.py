"""A declared run as reports show it: shared by the commands that show one."""

from __future__ import annotations

from envops.reports.declared_runs import RunResult
from envops.training.declared_runs import DeclaredRun


def run_result(run: DeclaredRun, state: str = "", then: str = "") -> RunResult:
    """One run as reports show it."""
    compiled = run.compiled
    command = " ".join(compiled.command) if compiled else ""
    return RunResult(
        name=run.spec.name,
        backend=run.trainer.name,
        model=run.spec.model,
        environments=tuple(source.label for source in run.spec.environments),
        verdict="fail" if run.fails else "pass",
        files=tuple(compiled.files) if compiled else (),
        command=compiled.command if compiled else (),
        units=compiled.units if compiled else {},
        notes=(*(compiled.notes if compiled else ()), *((f"next: {then}",) if then and then != command else ())),
        findings=run.findings,
        submit=run.spec.submit,
        state=state,
    )
