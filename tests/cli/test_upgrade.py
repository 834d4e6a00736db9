"""`envwright upgrade`: what a newer version changes is merged, and what the team edited stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from envwright.authoring.setup import answers as answers_module
from envwright.authoring.setup import upgrading
from envwright.authoring.setup.answers import ANSWERS_FILE
from envwright.authoring.setup.files import files_of
from envwright.cli.main import main
from envwright.declarations.problem import DeclarationError
from envwright.declarations.registry import load_registry
from envwright.declarations.tool_source import REGISTRY_FILE
from small_repository import edit

VALIDATE = ".github/workflows/validate.yml"
PRE_COMMIT = ".pre-commit-config.yaml"


@pytest.fixture
def repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    main(["init", str(tmp_path), "--owner", "acme", "--tool", "our-team/envwright@v0"])
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, str]]:
    """The next version of the tool: path → a text of the templates and its replacement."""
    changed: dict[str, tuple[str, str]] = {}

    def files(answers: answers_module.Answers) -> dict[str, str]:
        texts = files_of(answers)
        for path, (old, new) in changed.items():
            texts[path] = texts.get(path, "").replace(old, new) if old else new
            if not texts[path]:
                del texts[path]
        return texts

    monkeypatch.setattr(upgrading, "files_of", files)
    monkeypatch.setattr(upgrading, "__version__", "9.0")
    monkeypatch.setattr(answers_module, "__version__", "9.0")
    return changed


def upgrade(root: Path, *arguments: str) -> int:
    return main(["upgrade", "--root", str(root), *arguments])


def checked(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[tuple[str, str]]]:
    """The exit code of `--check`, and path and action of every change."""
    capsys.readouterr()
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    code = upgrade(root, "--check", "--format", "json")
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    return code, [(each["path"], each["action"]) for each in json.loads(capsys.readouterr().out)["files"]]


@pytest.mark.slow
def test_upgrade_of_same_version_changes_nothing(repository: Path, capsys: pytest.CaptureFixture[str]):
    edit(repository / "README.md", "# Environments of acme", "# Ours")
    assert checked(repository, capsys) == (0, [])
    assert upgrade(repository) == 0
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.slow
def test_upgrade_of_unedited_file_updates_it(repository: Path, newer: dict, capsys: pytest.CaptureFixture[str]):
    newer[VALIDATE] = ("merge_group:", "merge_group:\n  workflow_dispatch:")
    assert checked(repository, capsys) == (1, [(VALIDATE, "update")])
    assert upgrade(repository) == 0
    assert "+  workflow_dispatch:" in capsys.readouterr().out
    assert "  workflow_dispatch:\n" in (repository / VALIDATE).read_text()
    assert checked(repository, capsys) == (0, [])
    assert json.loads((repository / ANSWERS_FILE).read_text())["envwright"] == "9.0"


@pytest.mark.slow
def test_upgrade_of_edited_file_merges_both_changes(repository: Path, newer: dict, capsys: pytest.CaptureFixture[str]):
    newer["AGENTS.md"] = ("## Never\n", "## Never ever\n")
    edit(repository / "AGENTS.md", "# Working on this repository", "# Working with us")
    assert checked(repository, capsys) == (1, [("AGENTS.md", "merge")])
    assert upgrade(repository) == 0
    text = (repository / "AGENTS.md").read_text()
    assert text.startswith("# Working with us\n")
    assert "## Never ever\n" in text


@pytest.mark.slow
def test_upgrade_of_lines_that_were_edited_is_shown_until_settled(
    repository: Path, newer: dict, capsys: pytest.CaptureFixture[str]
):
    newer["README.md"] = ("# Environments of acme", "# The environments of acme")
    newer[VALIDATE] = ("merge_group:", "merge_group:\n  workflow_dispatch:")
    edit(repository / "README.md", "# Environments of acme", "# Ours")
    before = (repository / "README.md").read_bytes()
    assert upgrade(repository) == 1
    printed = capsys.readouterr().out
    assert "+# The environments of acme" in printed
    assert "envwright upgrade --keep README.md" in printed
    assert (repository / "README.md").read_bytes() == before
    assert "workflow_dispatch" in (repository / VALIDATE).read_text()  # the others are upgraded
    assert checked(repository, capsys) == (1, [("README.md", "conflict")])
    assert upgrade(repository, "--keep", "README.md") == 0
    assert (repository / "README.md").read_bytes() == before
    assert checked(repository, capsys) == (0, [])


def test_upgrade_of_change_that_the_team_made_by_hand_is_settled(
    repository: Path, newer: dict, capsys: pytest.CaptureFixture[str]
):
    newer["README.md"] = ("# Environments of acme", "# The environments of acme")
    edit(repository / "README.md", "# Environments of acme", "# The environments of acme")
    assert checked(repository, capsys) == (0, [])


def test_upgrade_leaves_removed_files_removed(repository: Path, newer: dict, capsys: pytest.CaptureFixture[str]):
    newer["README.md"] = ("# Environments of acme", "# The environments of acme")
    (repository / "README.md").unlink()
    assert checked(repository, capsys) == (0, [])
    assert upgrade(repository) == 0
    assert not (repository / "README.md").exists()


def test_upgrade_writes_new_files_unless_the_team_has_one(
    repository: Path, newer: dict, capsys: pytest.CaptureFixture[str]
):
    newer["new.txt"] = ("", "new\n")
    newer["other.txt"] = ("", "tool\n")
    (repository / "other.txt").write_text("ours\n")
    assert checked(repository, capsys) == (1, [("new.txt", "write")])
    assert upgrade(repository) == 0
    assert [(repository / name).read_text() for name in ("new.txt", "other.txt")] == ["new\n", "ours\n"]


def test_upgrade_removes_dropped_files_unless_they_were_edited(
    repository: Path, newer: dict, capsys: pytest.CaptureFixture[str]
):
    for name in ("CLAUDE.md", PRE_COMMIT):
        newer[name] = ((repository / name).read_text(), "")
    (repository / PRE_COMMIT).write_text("repos: []\n")
    assert checked(repository, capsys) == (1, [("CLAUDE.md", "remove")])
    assert upgrade(repository) == 0
    assert [(repository / name).exists() for name in ("CLAUDE.md", PRE_COMMIT)] == [False, True]


def test_upgrade_of_registry_keeps_declared_environments(
    repository: Path, newer: dict, capsys: pytest.CaptureFixture[str]
):
    newer[REGISTRY_FILE] = ('requires: ">=0.1"', 'requires: ">=0.1,<90"')
    edit(repository / REGISTRY_FILE, "environments: {}", "environments:\n  words: {}")
    assert checked(repository, capsys) == (1, [(REGISTRY_FILE, "merge")])
    assert upgrade(repository) == 0
    assert set(load_registry(repository).environments) == {"words"}
    assert "<90" in (repository / REGISTRY_FILE).read_text()


def test_upgrade_after_changed_answer_changes_what_depends_on_it(repository: Path, capsys: pytest.CaptureFixture[str]):
    edit(repository / ANSWERS_FILE, "our-team/envwright@v0", "our-team/envwright@v2")
    code, changes = checked(repository, capsys)
    assert (code, (VALIDATE, "update") in changes) == (1, True)
    assert upgrade(repository) == 0
    assert "validate.yml@v2" in (repository / VALIDATE).read_text()


@pytest.mark.parametrize(
    ("recorded", "installed", "called"),
    [
        ("our-team/tool@" + "1" * 40 + " # v0.1.0", "our-team/tool@" + "2" * 40 + " # v9.0", "2" * 40 + " # v9.0"),
        ("a-fork/tool@" + "1" * 40 + " # v0.1.0", "our-team/tool@" + "2" * 40 + " # v9.0", "1" * 40 + " # v0.1.0"),
        ("our-team/tool@v0", "our-team/tool@" + "2" * 40 + " # v9.0", "v0"),
        ("our-team/tool@" + "1" * 40 + " # v0.1.0", None, "1" * 40 + " # v0.1.0"),
    ],
    ids=["same-repository", "fork", "tag", "unknown"],
)
def test_upgrade_moves_a_pinned_tool_to_what_is_installed(
    recorded: str, installed: str | None, called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    main(["init", str(tmp_path), "--owner", "acme", "--tool", recorded])

    def default() -> str:
        if installed is None:
            raise answers_module.NoToolAddress("unknown")
        return installed

    monkeypatch.setattr(answers_module, "default_tool", default)
    assert upgrade(tmp_path) == 0
    assert (tmp_path / VALIDATE).read_text().rstrip().endswith(f"validate.yml@{called}")
    repositories = recorded.partition("@")[0]
    assert json.loads((tmp_path / ANSWERS_FILE).read_text())["answers"]["tool"] == f"{repositories}@{called}"


def test_upgrade_without_answers_file_names_init(tmp_path: Path):
    with pytest.raises(DeclarationError, match=r"envwright init"):
        upgrade(tmp_path)


def test_upgrade_of_newer_repository_names_the_version(repository: Path):
    edit(repository / ANSWERS_FILE, '"envwright": "', '"envwright": "70.')
    edit(repository / ANSWERS_FILE, '"noxfile": true', '"noxfile": true, "unknown": 1')
    before = (repository / ANSWERS_FILE).read_bytes()
    with pytest.raises(DeclarationError, match=r"(?s)written by envwright 70\..*uv tool upgrade envwright"):
        upgrade(repository)
    with pytest.raises(DeclarationError, match=r"written by envwright 70\."):
        main(["init", str(repository)])
    assert (repository / ANSWERS_FILE).read_bytes() == before


def test_upgrade_that_fails_halfway_changes_nothing(
    repository: Path, newer: dict, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from envwright.files import atomic_write

    newer[VALIDATE] = ("merge_group:", "merge_group:\n  workflow_dispatch:")
    newer["new/file.txt"] = ("", "new\n")
    newer["CLAUDE.md"] = ("@AGENTS.md\n", "")
    before = {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}
    written = atomic_write.write_whole

    def full_disk(path: Path, content: bytes) -> None:
        if path.name == ANSWERS_FILE:
            raise OSError(28, "No space left on device", str(path))
        written(path, content)

    monkeypatch.setattr(atomic_write, "write_whole", full_disk)
    assert upgrade(repository) == 4
    assert "No space left on device" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()} == before
    assert not (repository / "new").exists()
