"""Which environments a change touches, in real git repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from envops.repository.changes import changed_environments
from sample_repository import only, refused, write, write_repository


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, message: str = "change") -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with two environments, on a branch that has just left main."""
    folder = write_repository(tmp_path / "repository", "word-sums", "alpha")
    write(
        folder,
        {".gitignore": "__pycache__/\n", "tools/a.py": "", "docs/a.md": "", "environments/alpha/data/a.txt": "a"},
    )
    git(folder, "init", "-q", "-b", "main")
    commit(folder)
    git(folder, "checkout", "-q", "-b", "topic")
    return folder


def touched(root: Path, base: str | None = "main") -> set[str]:
    change = changed_environments(root, base)
    assert not change.everything, change.reason
    return set(change.names)


def test_nothing_changed(root: Path) -> None:
    change = changed_environments(root, "main")
    assert (change.names, change.everything) == (frozenset(), False)
    assert change.reason.startswith("no environment changed since ")


def test_a_commit_counts(root: Path) -> None:
    write(root, {"environments/word_sums/word_sums/__init__.py": "X = 2\n"})
    commit(root)
    assert touched(root) == {"word-sums"}


def test_the_working_tree_counts(root: Path) -> None:
    write(root, {"environments/alpha/README.md": "new\n"})
    assert touched(root) == {"alpha"}


def test_the_index_counts(root: Path) -> None:
    write(root, {"environments/alpha/README.md": "new\n"})
    git(root, "add", "-A")
    assert touched(root) == {"alpha"}


def test_an_untracked_file_counts(root: Path) -> None:
    write(root, {"environments/alpha/deep/in/new file.txt": ""})
    assert touched(root) == {"alpha"}


def test_an_ignored_file_does_not_count(root: Path) -> None:
    write(root, {"environments/alpha/alpha/__pycache__/a.pyc": ""})
    assert touched(root) == set()


def test_a_deleted_file_counts(root: Path) -> None:
    (root / "environments/alpha/data/a.txt").unlink()
    assert touched(root) == {"alpha"}


def test_a_file_moved_between_environments_counts_for_both(root: Path) -> None:
    git(root, "mv", "environments/alpha/data/a.txt", "environments/word_sums/a.txt")
    commit(root)
    assert touched(root) == {"alpha", "word-sums"}


def test_the_executable_bit_counts(root: Path) -> None:
    (root / "environments/alpha/README.md").chmod(0o755)
    assert touched(root) == {"alpha"}


def test_a_name_with_a_line_end_is_no_trouble(root: Path) -> None:
    write(root, {"environments/alpha/a\nb": ""})
    assert touched(root) == {"alpha"}


def test_a_removed_environment_is_told_apart(root: Path) -> None:
    git(root, "rm", "-rq", "environments/alpha")
    change = changed_environments(root, "main")
    assert (change.names, change.removed) == (frozenset(), {"alpha"})


def test_what_main_did_meanwhile_does_not_count(root: Path) -> None:
    git(root, "checkout", "-q", "main")
    write(root, {"environments/alpha/README.md": "new\n"})
    commit(root)
    git(root, "checkout", "-q", "topic")
    write(root, {"environments/word_sums/README.md": "new\n"})
    assert touched(root) == {"word-sums"}


@pytest.mark.parametrize("name", ["tools/a.py", "tools/new.py", "noxfile.py", "pyproject.toml"])
def test_shared_code_touches_everything(root: Path, name: str) -> None:
    write(root, {name: "# new\n"})
    change = changed_environments(root, "main")
    assert change.everything
    assert name in change.reason


@pytest.mark.parametrize(
    "name", ["docs/a.md", "tests/test_a.py", "README.md", "configs/endpoints.toml", "environments/README.md"]
)
def test_other_files_touch_nothing(root: Path, name: str) -> None:
    write(root, {name: "new\n"})
    assert touched(root) == set()


def test_an_entry_of_the_registry_touches_its_environment(root: Path) -> None:
    path = root / "registry.yaml"
    path.write_text(
        "# moves every line\n" + path.read_text().replace("alpha: {}", "alpha: {gates: {smoke: {tasks: 3}}}")
    )
    assert touched(root) == {"alpha"}


def test_a_default_of_the_registry_touches_every_environment(root: Path) -> None:
    path = root / "registry.yaml"
    path.write_text(path.read_text() + "defaults: {gates: {smoke: {tasks: 3}}}\n")
    assert touched(root) == {"alpha", "word-sums"}


def test_a_comment_in_the_registry_touches_nothing(root: Path) -> None:
    path = root / "registry.yaml"
    path.write_text("# a comment\n" + path.read_text())
    assert touched(root) == set()


def test_a_registry_that_could_not_be_read_before_touches_everything(root: Path) -> None:
    git(root, "checkout", "-q", "main")
    sound = (root / "registry.yaml").read_text()
    write(root, {"registry.yaml": "broken: ["})
    commit(root)
    git(root, "checkout", "-q", "-B", "topic")
    write(root, {"registry.yaml": sound})
    assert changed_environments(root, "main").everything


def test_the_repository_may_lie_below_the_top_of_the_clone(root: Path) -> None:
    top = root.parent / "top"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    for part in ("registry.yaml", "environments"):
        (top / "inner").mkdir(exist_ok=True)
        (root / part).rename(top / "inner" / part)
    commit(top)
    write(top, {"inner/environments/alpha/README.md": "new\n", "environments/word_sums/a": "elsewhere"})
    assert touched(top / "inner") == {"alpha"}


def test_a_hook_does_not_lead_git_astray(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", os.devnull)
    monkeypatch.setenv("GIT_INDEX_FILE", os.devnull)
    assert changed_environments(root, "main").names == frozenset()


def test_main_is_the_base_where_nothing_is_said(root: Path) -> None:
    write(root, {"environments/alpha/README.md": "new\n"})
    commit(root)
    assert touched(root, None) == {"alpha"}


@pytest.mark.parametrize("base", ["origin/main", "nonsense", "--output=/tmp/x", "-h", "main;id"])
def test_a_base_that_does_not_exist_is_refused(root: Path, base: str) -> None:
    problem = only(refused(changed_environments, root, base))
    assert (problem.message, problem.found) == ("there is no such commit to compare with", base)
    assert "git fetch" in problem.fix


def test_a_shallow_clone_says_what_to_fetch(root: Path) -> None:
    git(root, "checkout", "-q", "topic")
    commit(root)
    clone = root.parent / "clone"
    git(root.parent, "clone", "-q", "--depth", "1", "--no-single-branch", root.as_uri(), str(clone))
    problem = only(refused(changed_environments, clone, "origin/main"))
    assert "does not reach" in problem.message
    assert "fetch-depth: 0" in problem.fix


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    assert "no commit here" in only(refused(changed_environments, write_repository(tmp_path, "alpha"))).message


def test_a_repository_without_commits_is_refused(tmp_path: Path) -> None:
    git(write_repository(tmp_path, "alpha"), "init", "-q")
    assert "no commit here" in only(refused(changed_environments, tmp_path)).message


def test_a_machine_without_git_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert only(refused(changed_environments, root, "main")).message == "git is not installed"


def test_before_the_first_commit_there_is_nothing(root: Path) -> None:
    git(root, "checkout", "-q", "main")
    change = changed_environments(root, "HEAD~1")
    assert change.everything
    assert change.base is None
    assert "everything is new" in change.reason


def test_the_first_push_of_a_branch_comes_after_nothing(root: Path) -> None:
    assert changed_environments(root, "0" * 40).everything


def test_a_merge_commit_is_seen_from_its_base(root: Path) -> None:
    write(root, {"environments/alpha/README.md": "new\n"})
    commit(root)
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    assert touched(root, "HEAD~1") == {"alpha"}


def test_a_shallow_clone_says_how_deep_to_fetch(root: Path) -> None:
    commit(root)
    clone = root.parent / "clone"
    git(root.parent, "clone", "-q", "--depth", "1", root.as_uri(), str(clone))
    assert "fetch-depth: 2" in only(refused(changed_environments, clone, "HEAD~1")).fix
    assert "fetch-depth: 4" in only(refused(changed_environments, clone, "HEAD^^^")).fix


def test_a_folder_of_environments_is_none_itself(root: Path) -> None:
    write(root, {"environments/more/beta/pyproject.toml": "", "environments/more/beta/README.md": ""})
    commit(root)
    change = changed_environments(root, "main")
    assert (change.names, change.removed) == (frozenset(), frozenset())


def test_an_environment_that_moves_out_of_reach_is_removed(root: Path) -> None:
    (root / "environments/more").mkdir()
    git(root, "mv", "environments/alpha", "environments/more/alpha")
    assert changed_environments(root, "main").removed == {"alpha"}


@pytest.mark.parametrize("committed", [True, False])
def test_a_renamed_environment_is_known_again(root: Path, committed: bool) -> None:
    shutil.move(root / "environments/alpha", root / "environments/beta")
    shutil.move(root / "environments/beta/alpha", root / "environments/beta/beta")
    edit = root / "environments/beta/pyproject.toml"
    edit.write_text(edit.read_text().replace("alpha", "beta"))
    if committed:
        commit(root)
    change = changed_environments(root, "main")
    assert dict(change.renamed) == {"beta": "alpha"}
    assert (change.names, change.removed) == ({"beta"}, {"alpha"})


def test_a_new_environment_beside_one_that_went_is_no_rename(root: Path) -> None:
    git(root, "rm", "-rq", "environments/alpha")
    write(root, {"environments/beta/pyproject.toml": "[project]\nname = 'beta'\n", "environments/beta/b.py": "B = 1\n"})
    assert dict(changed_environments(root, "main").renamed) == {}


def test_an_entry_that_leaves_the_registry_is_removed(root: Path) -> None:
    git(root, "rm", "-rq", "environments/alpha")
    write(root, {"registry.yaml": "version: 1\nowner: acme\nenvironments:\n  word-sums: {}\n"})
    commit(root)
    assert changed_environments(root, "main").removed == {"alpha"}


def test_what_changed_besides_shared_code_is_named_too(root: Path) -> None:
    write(root, {"tools/a.py": "A = 1\n", "environments/alpha/README.md": "new\n"})
    change = changed_environments(root, "main")
    assert change.everything
    assert change.names == {"alpha"}
