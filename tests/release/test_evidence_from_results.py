"""A validation that rests on replies of a model is not evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envwright.declarations.package import Package
from envwright.release.evidence import read_evidence
from envwright.rules.engine import GATES

PACKAGE = Package("sums", Path("sums"), "sums", "0.1.0", "", (), "", (), (), "v1", None, digest="d", hub_hash="h")


def refusal(folder: Path, *findings: dict[str, Any]) -> str:
    entry = {"name": "sums", "verdict": "pass", "digest": "d", "hub_hash": "h", "gates": dict.fromkeys(GATES, "pass")}
    wheel = {"sha256": "0" * 64, "filename": "sums-0.1.0-py3-none-any.whl"}
    path = folder / "validate.json"
    path.write_text(json.dumps({"environments": [{**entry, "wheel": wheel, "findings": findings}]}))
    return read_evidence(path)["sums"].refusal(PACKAGE)


@pytest.mark.parametrize("ignored", [None, "these results are ours"])
def test_passing_validation_from_results_is_refused(tmp_path: Path, ignored: str | None):
    finding = {"rule": "RWD100", "severity": "warning", "ignored": ignored}
    assert "rests on replies of a model" in refusal(tmp_path, finding)


def test_passing_validation_with_another_warning_is_accepted(tmp_path: Path):
    assert refusal(tmp_path, {"rule": "REC003", "severity": "warning", "ignored": None}) == ""
