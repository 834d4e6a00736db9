"""Reports of training runs on disk: written whole, read back the same, refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from envwright.reports.run_report import (
    Curve,
    CurvePoint,
    RunFinding,
    RunReport,
    read_run,
    read_runs,
    run_file,
    write_run,
)

RUN = RunReport(
    name="reverse-text-4b",
    backend="prime",
    model="Qwen/Qwen3-4B",
    environments=("reverse-text",),
    status="running",
    curves=(Curve("reward", (CurvePoint(0, 0.25, 0.2, 0.3), CurvePoint(1, None))),),
    findings=(RunFinding("RUN001", "error", "no variance", evidence={"dead": 0.9}, patch="-a\n+b", steps=(3, 9)),),
    config={"learning_rate": 1e-5},
)


def test_run_report_read_back_is_unchanged(tmp_path: Path) -> None:
    assert read_run(write_run(RUN, tmp_path)) == RUN
    assert read_runs(tmp_path) == ([RUN], [])


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b c", "…", ""])
def test_run_report_file_stays_in_folder_for_any_name(tmp_path: Path, name: str) -> None:
    path = write_run(RunReport(name, "prime", "m"), tmp_path)
    assert path.parent == tmp_path / "runs"
    assert path.name == run_file(name)


@pytest.mark.parametrize("text", ["", "[1, 2", "[]", '{"name": 1}', json.dumps({"name": "a", "backend": "b"})])
def test_read_runs_malformed_file_is_reported_and_skipped(tmp_path: Path, text: str) -> None:
    write_run(RUN, tmp_path)
    (tmp_path / "runs" / "broken.json").write_text(text)
    runs, [problem] = read_runs(tmp_path)
    assert runs == [RUN]
    assert "broken.json is not a report of a run" in problem


def test_run_report_of_later_version_is_refused(tmp_path: Path) -> None:
    path = write_run(RUN, tmp_path)
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(ValueError, match="has version 2, this tool reads 1"):
        read_run(path)
