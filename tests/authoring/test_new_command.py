"""`envops new`: what it writes, what it refuses, and that it writes all or nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from envops.cli.main import main
from envops.repository.codeowners import render
from envops.repository.registry import load_registry
from envops.repository.repository import Repository

ROOT = Path(__file__).parents[2]
ROWS = [{"question": f"What is {n} plus 5?", "answer": f"Count on.\n#### {n + 5:,}"} for n in range(990, 1010)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two environments, one of each generation, whose locks can be copied."""
    root = tmp_path / "repository"
    (root / "environments").mkdir(parents=True)
    for name in ("reverse_text", "number_guess"):
        shutil.copytree(ROOT / "environments" / name, root / "environments" / name)
    owners = 'owners: ["@acme/environments"]'
    text = f"version: 1\nowner: acme\nenvironments:\n  number-guess:\n    {owners}\n  reverse-text:\n    {owners}\n"
    (root / "registry.yaml").write_text(text)
    return root


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def new(root: Path, *arguments: str) -> int:
    return main(["new", *arguments, "--root", str(root)])


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_new_from_a_file_declares_and_owns_the_package(repository: Path, questions: Path):
    assert new(repository, "more-sums", "--data", str(questions)) == 0
    registry = load_registry(repository)
    assert registry.environments["more-sums"].owners == ("@acme/environments",)
    assert (repository / "CODEOWNERS").read_text("utf-8") == render(registry)
    package = Repository.load(repository).packages["more-sums"]
    assert (package.generation, package.answer.type) == ("v1", "number")
    rows = (repository / "environments/more_sums/more_sums/data/train.jsonl").read_text().splitlines()
    assert json.loads(rows[0]) == {"question": "What is 990 plus 5?", "answer": "995"}
    assert json.loads(rows[-1])["answer"] == "1014"


def test_new_copies_the_lock_of_an_equal_sibling(repository: Path):
    assert new(repository, "first") == 0
    assert new(repository, "second", "--v0") == 0
    environments = repository / "environments"
    assert (environments / "first/requirements.lock").read_bytes() == (
        environments / "reverse_text/requirements.lock"
    ).read_bytes()
    assert (environments / "second/requirements.lock").read_bytes() == (
        environments / "number_guess/requirements.lock"
    ).read_bytes()


def test_new_reports_unreadable_and_repeated_rows(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rows = [*ROWS, ROWS[0], {"question": "And this?", "answer": "nobody knows"}]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert new(repository, "more-sums", "--data", str(tmp_path / "q.jsonl")) == 0
    told = capsys.readouterr().err
    assert "left out 1 row(s); the first: row 22" in told
    assert "left out 1 row(s) with a repeated question" in told


def test_new_keeps_two_splits_apart(repository: Path, tmp_path: Path):
    (tmp_path / "data").mkdir()
    for split, rows in (("train", ROWS[:12]), ("test", ROWS[10:])):
        (tmp_path / "data" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert new(repository, "more-sums", "--data", str(tmp_path / "data")) == 0
    data = repository / "environments/more_sums/more_sums/data"
    assert {file.name: len(file.read_text().splitlines()) for file in data.iterdir()} == {
        "train.jsonl": 12,
        "test.jsonl": 8,  # the two that are also for training are not for evaluation
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reverse-text"], "registry.yaml:6: reverse-text is already declared"),
        (["Reverse_Text"], "is not a valid name"),
        (["1st"], "is not a valid name"),
        (["more-sums", "--kind", "multi-agent", "--v0"], "supports one agent only"),
        (["more-sums", "--data", "nowhere.jsonl"], "nowhere.jsonl does not exist"),
        ([], "NAME is missing"),
    ],
)
def test_new_refusal_changes_nothing(
    repository: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    before = contents(repository)
    assert new(repository, *arguments) == 2
    assert said in capsys.readouterr().err
    assert contents(repository) == before


def test_new_existing_folder_is_not_changed(repository: Path, capsys: pytest.CaptureFixture[str]):
    (repository / "environments/more_sums").mkdir()
    assert new(repository, "more-sums") == 2
    assert "environments/more_sums already exists" in capsys.readouterr().err


def test_new_programs_without_tests_are_not_run(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rows = [{"question": f"Add {n}.", "answer": f"def add(a):\n    return a + {n}"} for n in range(8)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert new(repository, "adders", "--data", str(tmp_path / "q.jsonl"), "--kind", "code") == 2
    assert "has programs but no tests" in capsys.readouterr().err


def test_new_failed_write_leaves_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch):
    before = contents(repository)

    def full(_registry: object) -> str:
        raise OSError("no space left on device")

    monkeypatch.setattr("envops.repository.codeowners.render", full)
    with pytest.raises(OSError, match="no space left"):
        new(repository, "more-sums")
    assert contents(repository) == before
