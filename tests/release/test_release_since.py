"""The base of a release: the newest ancestor of HEAD whose release ended well."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from envwright.cli.main import main
from small_repository import git, small_repository


class Runs(ThreadingHTTPServer):
    """GitHub's list of successful runs, by the commits of these."""

    def __init__(self) -> None:
        self.commits: list[str] = []
        self.status = 200
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Answer)


class Answer(BaseHTTPRequestHandler):
    server: Runs

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()
        own = {"head_branch": "main", "head_repository": {"full_name": "acme/envs"}}
        runs = [{**own, "head_sha": each} for each in self.server.commits]
        self.wfile.write(json.dumps({"workflow_runs": runs}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    server = Runs()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/envs")
    monkeypatch.setenv("GITHUB_TOKEN", "a-token")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three commits on main; HEAD is the last."""
    made = small_repository(tmp_path / "repository", "reverse_text")
    for message in ("second", "third"):
        git(made, "commit", "-q", "--allow-empty", "-m", message)
    return made


def test_since_is_the_newest_ancestor_whose_release_succeeded(
    root: Path, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """The releases of the second and the third commit failed or were replaced while they waited."""
    first = git(root, "rev-parse", "HEAD~2")
    git(root, "checkout", "-q", "--orphan", "other")
    git(root, "commit", "-q", "--allow-empty", "-m", "of another history")
    foreign = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-q", "main")
    runs.commits = ["f" * 40, foreign, "--upload-pack=x", first, git(root, "rev-parse", "HEAD~1")]
    assert main(["release", "since", "--root", str(root)]) == 0
    assert capsys.readouterr().out == f"{first}\n"
    assert runs.asked[0].startswith("/repos/acme/envs/actions/workflows/release.yml/runs?branch=main&status=success")


@pytest.mark.usefixtures("runs")
def test_since_without_a_release_is_empty(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", "since", "--root", str(root)]) == 0
    assert capsys.readouterr().out == ""


def test_since_refused_by_github_is_an_error_and_no_base(
    root: Path, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.status = 403
    assert main(["release", "since", "--root", str(root)]) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert "HTTP 403" in said.err
