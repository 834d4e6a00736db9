"""The pull request about drift: recorded files that differ, and nothing else that the job left."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from drift_proposal import BRANCH, TEXT, body_of, propose_drift
from envwright.github.api import GitHub, GitHubError

PLACE = "tools/envwright/training/trainers/recorded/made_up.json"


@dataclass(frozen=True)
class Repository(GitHub):
    """A repository without a branch of an earlier proposal."""

    written: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def get(self, path: str, **_: str | int) -> Any:
        if path.startswith("git/commits/"):
            return {"tree": {"sha": "tree"}}
        raise GitHubError(path, 404)

    def all(self, _path: str, **_: str | int) -> Iterator[Any]:
        yield from ()

    def send(self, _method: str, path: str, body: Mapping[str, Any]) -> Any:
        self.written.append((path, body))
        return {"sha": "new"}


@pytest.fixture
def github() -> Repository:
    return Repository("acme/envs", "token")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one recorded file and one commit."""
    root = tmp_path / "root"
    (root / PLACE).parent.mkdir(parents=True)
    (root / PLACE).write_text('{"settings": ["a"]}')
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", root, *command], check=True)
    return root


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What the job left: the same file, another one and a text."""
    left = tmp_path / "left"
    (left / PLACE).parent.mkdir(parents=True)
    (left / PLACE).write_text('{"settings": ["a"]}')
    (left / "noxfile.py").write_text("raise SystemExit")
    (left / TEXT).write_text("drift: made_up.json\n~~~~~~~~\n# not a heading\n")
    return left


def test_same_files_propose_nothing(github: Repository, root: Path, left: Path) -> None:
    assert propose_drift(github, root, left, ["made_up.json"]) == "no recorded file differs: nothing to propose"
    assert github.written == []


def test_changed_file_is_proposed_alone_on_its_own_branch(github: Repository, root: Path, left: Path) -> None:
    (left / PLACE).write_text('{"settings": ["b"]}')
    assert propose_drift(github, root, left, ["made_up.json", "gone.json"]).endswith(": made")
    sent = dict(github.written)
    [entry] = sent["git/trees"]["tree"]
    assert (entry["path"], json.loads(entry["content"])) == (PLACE, {"settings": ["b"]})
    assert sent["pulls"]["head"] == BRANCH


@pytest.mark.parametrize("text", ["[]", '{"a": "' + "x" * 1_000_000 + '"}'])
def test_file_that_is_no_record_is_not_proposed(text: str, github: Repository, root: Path, left: Path) -> None:
    (left / PLACE).write_text(text)
    with pytest.raises(ValueError, match="not proposed"):
        propose_drift(github, root, left, ["made_up.json"])
    assert github.written == []


def test_text_of_the_session_cannot_leave_its_block(left: Path) -> None:
    lines = body_of(left).splitlines()
    assert [number for number, line in enumerate(lines) if line.startswith("~~~~")] == [3, len(lines) - 1]
