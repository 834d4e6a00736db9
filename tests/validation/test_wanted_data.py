"""The data that a call wanted is read from the frames of the called library: file, function and arguments."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from envwright.builds.venv import venv_for
from envwright.system.workspace import Workspace
from envwright_worker.failures import Sources, kind_of
from envwright_worker.wanted_data import CALLS, wanted_by_call, wanted_by_failure

COMMIT = "a" * 40
LOCK = Path(__file__).parents[2] / "environments/date_arithmetic/requirements.lock"
AUTHORS = """
def load():
    return fetch()
"""


def function_at(file: str, name: str, parameters: str, body: str) -> Any:
    """A function as a library has it in a file."""
    scope: dict[str, Any] = {"__name__": "library"}
    exec(compile(f"def {name}({parameters}):\n    {body}\n", f"/venv/site-packages{file}", "exec"), scope)
    return scope[name]


def called_by_author(folder: Path, fetch: Any) -> Any:
    """The author's function that calls it, of a file in a folder."""
    scope: dict[str, Any] = {"fetch": fetch}
    exec(compile(AUTHORS, str(folder / "sums.py"), "exec"), scope)
    return scope["load"]


@pytest.mark.parametrize(
    "command",
    [
        ["git", "clone", "https://127.0.0.1:9/a.git", "a"],
        ("git", "clone", "https://127.0.0.1:9/a.git", "a"),
        "git clone https://127.0.0.1:9/a.git a",
    ],
)
def test_clone_by_git_shows_its_address(tmp_path: Path, command: list[str] | tuple[str, ...] | str) -> None:
    def clone() -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, shell=isinstance(command, str))

    with pytest.raises(subprocess.CalledProcessError) as raised:
        called_by_author(tmp_path, clone)()
    assert kind_of(raised.value) == "network"
    (wanted,) = wanted_by_failure(raised.value, Sources(tmp_path))
    assert (wanted["kind"], wanted["name"]) == ("host", "https://127.0.0.1:9/a.git")


@pytest.mark.parametrize("command", [["git", "status"], ["pytest", "https://127.0.0.1:9/a"], ["make", "clone"]])
def test_command_that_downloads_nothing_is_no_matter_of_the_network(command: list[str]) -> None:
    assert kind_of(subprocess.CalledProcessError(1, command)) == "raised"


@pytest.mark.parametrize(
    ("file", "name", "parameters", "expected"),
    [
        (
            "/datasets/load.py",
            "load_dataset",
            f"path='acme/sums', name='main', data_files=None, revision='{COMMIT}'",
            {"kind": "dataset", "name": "acme/sums", "config": "main", "revision": COMMIT},
        ),
        (
            "/datasets/load.py",
            "load_dataset",
            "path='acme/sums', name=None, data_files='a.json', revision='main'",
            {"kind": "dataset", "name": "acme/sums", "files": "data_files='a.json'"},
        ),
        (
            "/huggingface_hub/file_download.py",
            "hf_hub_download",
            "repo_id='acme/tiny', filename='a.bin', repo_type=None, revision=None",
            {"kind": "model", "name": "acme/tiny", "files": "a.bin"},
        ),
        (
            "/huggingface_hub/hf_file_system.py",
            "resolve_path",
            f"path='datasets/acme/sums@{COMMIT}/a.parquet'",
            {"kind": "dataset", "name": "acme/sums", "revision": COMMIT, "files": "hf://datasets/acme/sums/a.parquet"},
        ),
        (
            "/nltk/data.py",
            "find",
            "resource_name='tokenizers/punkt_tab/english/'",
            {"kind": "nltk", "name": "punkt_tab"},
        ),
    ],
)
def test_failed_call_shows_its_wanted_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, name: str, parameters: str, expected: dict[str, str]
) -> None:
    monkeypatch.setattr("envwright_worker.wanted_data._is_format", lambda path: path == "json")
    load = called_by_author(tmp_path, function_at(file, name, parameters, "raise ConnectionError('offline mode')"))
    with pytest.raises(ConnectionError) as raised:
        load()
    assert kind_of(raised.value) == "network"
    assert wanted_by_failure(raised.value, Sources(tmp_path)) == [
        {"config": "", "revision": "", "files": "", **expected, "place": {"file": "sums.py", "line": 3}},
    ]


@pytest.mark.parametrize("path", ["json", "./rows", "/data/rows", "a/b/c"])
def test_local_data_is_not_wanted_from_the_hub(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr("envwright_worker.wanted_data._is_format", lambda path: path == "json")
    load = function_at("/datasets/load.py", "load_dataset", f"path={path!r}", "raise ConnectionError")
    with pytest.raises(ConnectionError) as raised:
        load()
    assert wanted_by_failure(raised.value, Sources()) == []


def test_running_call_shows_its_wanted_data(tmp_path: Path) -> None:
    seen: list[Any] = []
    download = function_at("/nltk/downloader.py", "download", "info_or_id='punkt_tab'", "return look()")
    download.__globals__["look"] = lambda: seen.append(wanted_by_call(sys._getframe(), Sources(tmp_path)))
    called_by_author(tmp_path, download)()
    assert (seen[0]["kind"], seen[0]["name"], seen[0]["place"]) == ("nltk", "punkt_tab", {"file": "sums.py", "line": 3})
    assert wanted_by_call(sys._getframe(), Sources(tmp_path)) is None


def test_calls_that_are_read_exist_in_the_locked_libraries(workspace: Workspace) -> None:
    libraries = venv_for(LOCK, workspace, threading.Event()).site_packages
    held = {"/subprocess.py": Path(subprocess.__file__)}
    missing = [
        (file, function)
        for file, function in CALLS
        if not file.startswith("/nltk/")
        and f"def {function}(" not in held.get(file, libraries / file.strip("/")).read_text()
    ]
    assert missing == []
