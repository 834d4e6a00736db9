"""Environments × models on the site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.reports.html.page import templates
from envwright.reports.result import ComparedRecording, EnvironmentResult
from envwright.reports.site.build import Catalogue, ListedEnvironment, model_table, site_files

PACKAGE = Package("a", Path(), "a", "1", "", (), "", (), (), "v1", None, digest="d")
LISTED = ListedEnvironment(EnvironmentEntry("a", visibility="PUBLIC"), PACKAGE)


def recorded(model: str | None, mean: float, date: str = "2026-11-02") -> ComparedRecording:
    return ComparedRecording(
        "a.jsonl.gz", model, model, date, mean=mean, interval=[0.1, 0.9], scored=64, package_version="0.1.0"
    )


def listed(name: str, *recordings: ComparedRecording) -> ListedEnvironment:
    proven = EnvironmentResult(name, "", "pass", recordings=recordings)
    return replace(LISTED, entry=EnvironmentEntry(name), proven=proven)


def test_model_table_has_the_latest_recording_of_each_model() -> None:
    table = model_table(
        [
            listed("hard", recorded("m/1", 0.0), recorded("m/2", 0.25)),
            listed("easy", recorded("m/1", 0.2, "2026-01-01"), recorded("m/1", 1.0)),
            listed("unrecorded"),
        ]
    )
    assert table.models == ("m/1", "m/2")
    assert [(one.name, [cell and (cell.text, cell.shade) for cell in cells]) for one, cells in table.rows] == [
        ("easy", [("1.00", 4), None]),
        ("hard", [("0.00", 0), ("0.25", 1)]),
    ]
    assert table.rows[0][1][0] is not None
    assert table.rows[0][1][0].interval == "0.10 to 0.90"
    assert table.rows[0][1][0].about == "64 rollouts, version 0.1.0, 2026-11-02"


def test_model_table_leaves_scripted_policies_out() -> None:
    assert model_table([listed("a", recorded(None, 0.5))]).rows == ()


def test_model_table_on_the_site_escapes_names_and_is_absent_without_models() -> None:
    files = dict(site_files(Catalogue("acme", (LISTED, replace(LISTED, entry=EnvironmentEntry("b"))))))
    assert "Rewards of models" not in files["index.html"]
    shown = model_table([listed("a", recorded("<img src=x>", 0.5))])
    text = templates("envwright.reports.site").get_template("models.html.j2").render(models=shown)
    assert "<img" not in text
    assert 'class="shade-2"' in text
