"""The site's files without a browser: READMEs as data, badges, and whose folder may be written anew."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from envops import exit_codes
from envops.cli.main import main
from envops.reports.site.badge import badge
from envops.reports.site.readme import readme_html
from sample_results import HOSTILE

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("# name", "<h2>name</h2>"),
        ("[out](https://a.example/x)", '<a href="https://a.example/x" rel="noreferrer nofollow">out</a>'),
        ("[in](../../docs/x.md)", "<p>in</p>"),
        ("[act](javascript:alert(1))", "[act](javascript:alert(1))"),
        ("![what it shows](http://a.example/x.png)", "<p>what it shows</p>"),
        ("<b onclick=x>raw</b>", "&lt;b onclick=x&gt;raw&lt;/b&gt;"),
        ("`<script>`", "<code>&lt;script&gt;</code>"),
    ],
)
def test_a_readme_becomes_text_tables_and_links_that_lead_out(markdown: str, html: str) -> None:
    assert html in readme_html(markdown)


def test_nothing_in_a_readme_acts() -> None:
    html = readme_html(f"{HOSTILE}\n\n| a |\n|---|\n| {HOSTILE} |\n\n```\n{HOSTILE}\n```\n<!-- {HOSTILE} -->\n")
    assert "<script" not in html
    assert "<img" not in html
    assert "<!--" not in html


@pytest.mark.parametrize("said", ["pass", HOSTILE.replace("\ud800", "").replace("\x00", "").replace("\x07", "")[:40]])
def test_badge_text_is_its_accessible_name(said: str) -> None:
    picture = ElementTree.fromstring(badge("envops", said))
    assert picture.get("aria-label", "").split() == f"envops: {said}".split()


def test_the_site_of_this_repository_has_a_page_for_every_environment(tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert main(["site", "--root", str(ROOT), "--reports", str(tmp_path), "--out", str(out)]) == exit_codes.PASS
    wanted = {folder.parent.name.replace("_", "-") for folder in (ROOT / "environments").glob("*/pyproject.toml")}
    assert {folder.name for folder in (out / "environments").iterdir()} == wanted
    assert "not validated" in (out / "index.html").read_text()
    assert main(["site", "--root", str(ROOT), "--reports", str(tmp_path), "--out", str(out)]) == exit_codes.PASS


def test_what_a_release_published_stands_beside_the_version_here(tmp_path: Path) -> None:
    released = {"name": "gsm8k", "result": "published", "package_version": "0.0.9"}
    for entry, there in ((released, True), (released | {"result": "failed"}, False), ({"name": "gsm8k"}, False)):
        (tmp_path / "release.json").write_text(json.dumps({"environments": [entry]}))
        out = tmp_path / "site"
        assert main(["site", "--root", str(ROOT), "--reports", str(tmp_path), "--out", str(out)]) == exit_codes.PASS
        assert ("0.0.9 published" in (out / "environments/gsm8k/index.html").read_text()) is there


def test_a_folder_that_is_no_site_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["site", "--root", str(ROOT), "--out", str(tmp_path)]) == exit_codes.USAGE
    assert "no site of ours" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "mine"
