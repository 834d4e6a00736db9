"""The site's files without a browser: READMEs as data, and the folders that may be rewritten."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from envwright import exit_codes
from envwright.cli.main import main
from envwright.reports.json_report import report_data
from envwright.reports.run_report import RunReport, write_run
from envwright.reports.site.build import readme_html
from envwright.reports.transcripts.beside import safe_key, script_of, transcripts_file
from envwright.text.plain_data import plain_data
from sample_reports import sample_report
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
def test_readme_html_has_text_tables_and_outward_links(markdown: str, html: str) -> None:
    assert html in readme_html(markdown)


def test_readme_html_contains_no_active_content() -> None:
    html = readme_html(f"{HOSTILE}\n\n| a |\n|---|\n| {HOSTILE} |\n\n```\n{HOSTILE}\n```\n<!-- {HOSTILE} -->\n")
    assert "<script" not in html
    assert "<img" not in html
    assert "<!--" not in html


def test_site_has_a_page_for_every_environment(tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert (
        main(["site", "--private", "--root", str(ROOT), "--reports", str(tmp_path), "--out", str(out)])
        == exit_codes.PASS
    )
    wanted = {folder.parent.name.replace("_", "-") for folder in (ROOT / "environments").glob("*/pyproject.toml")}
    assert {folder.name for folder in (out / "environments").iterdir()} == wanted
    assert "not validated" in (out / "index.html").read_text()
    assert (
        main(["site", "--private", "--root", str(ROOT), "--reports", str(tmp_path), "--out", str(out)])
        == exit_codes.PASS
    )


@pytest.mark.parametrize(("options", "shown"), [([], False), (["--private"], True)])
def test_site_has_no_text_of_private_environments(options: list[str], shown: bool, tmp_path: Path) -> None:
    root, reports = tmp_path / "root", tmp_path / "root/reports"
    for name in ("reverse_text", "word_problems"):
        shutil.copytree(ROOT / "environments" / name, root / "environments" / name)
    (root / "environments/word_problems/README.md").write_text("# SECRET-README")
    (root / "registry.yaml").write_text(
        "version: 1\nowner: acme\nenvironments:\n  reverse-text: {visibility: PUBLIC}\n  word-problems: {}\n"
        "runs:\n  secret-run:\n    backend: trl\n    model: Q/SECRET-MODEL\n"
        "    max_steps: 1\n    environments: [{id: word-problems}]\n"
    )
    report = plain_data(report_data(sample_report(2, 2 * 64)))
    for entry, name in zip(report["environments"], ("reverse-text", "word-problems"), strict=True):
        entry["name"] = name
    report["environments"][1]["findings"] = [
        {**finding, "message": "SECRET-FINDING"} for finding in report["environments"][0]["findings"]
    ]
    reports.mkdir()
    (reports / "validate.json").write_text(json.dumps(report))
    write_run(
        RunReport(name="secret-run", backend="trl", model="SECRET-MODEL", environments=("word-problems",)), reports
    )
    for name in ("reverse-text", "word-problems"):
        (reports / transcripts_file(name)).parent.mkdir(exist_ok=True)
        (reports / transcripts_file(name)).write_text(script_of(safe_key(name), "U0VDUkVULVRSQU5TQ1JJUFQ="))
    out = tmp_path / "site"
    assert main(["site", *options, "--root", str(root), "--out", str(out)]) == exit_codes.PASS
    written = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert any(b"reverse-text" in content for content in written.values())
    for secret in (b"SECRET-README", b"SECRET-FINDING", b"SECRET-MODEL", b"word-problems"):
        assert any(secret in content for content in written.values()) == shown, secret
    assert any("word-problems" in str(path) for path in written) == shown


def test_site_leaves_out_environment_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    for name in ("reverse_text", "word_problems"):
        shutil.copytree(ROOT / "environments" / name, root / "environments" / name)
    (root / "registry.yaml").write_text(
        "version: 1\nowner: acme\nenvironments:\n  reverse-text: {}\n  word-problems: {}\n"
    )
    (root / "environments/word_problems/pyproject.toml").write_text("[project\n")
    assert main(["site", "--private", "--root", str(root)]) == exit_codes.FAIL
    assert [folder.name for folder in (root / "reports/site/environments").iterdir()] == ["reverse-text"]
    printed = capsys.readouterr().err
    assert "environments/word_problems/pyproject.toml" in printed
    assert "left out: word-problems" in printed


def test_site_shows_published_version_beside_local_one(tmp_path: Path) -> None:
    released = {"name": "gsm8k", "result": "published", "package_version": "0.0.9"}
    for entry, there in ((released, True), (released | {"result": "failed"}, False), ({"name": "gsm8k"}, False)):
        (tmp_path / "release.json").write_text(json.dumps({"environments": [entry]}))
        out = tmp_path / "site"
        assert (
            main(["site", "--private", "--root", str(ROOT), "--reports", str(tmp_path), "--out", str(out)])
            == exit_codes.PASS
        )
        assert ("0.0.9 published" in (out / "environments/gsm8k/index.html").read_text()) is there


def test_site_refuses_folder_it_did_not_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["site", "--private", "--root", str(ROOT), "--out", str(tmp_path)]) == exit_codes.USAGE
    assert "not generated by envwright" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "mine"
