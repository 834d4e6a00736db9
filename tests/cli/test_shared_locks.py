"""`envops lock --shared` and `--own`, and the commands that read locks of a commit or of other environments."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from envops import exit_codes
from envops.authoring.new.write import equal_lock
from envops.cli import lock as lock_command
from envops.cli.main import main
from envops.facts.observed import Failure
from envops.repository.base_revision import find_base
from envops.repository.content import reward_digest
from envops.repository.repository import Repository
from envops.repository.shared_lock import copy_shared_lock, lock_content, users_of
from envops.repository.workspace import Workspace
from envops.system.subprocesses import ProgramFailed
from envops.validation.interpreter import own_interpreter
from envops.validation.venv import venv_key
from small_repository import edit, git, small_repository

NAMES = ("reverse_text", "word_problems", "gsm8k", "date_arithmetic")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_repository(tmp_path / "repository", *NAMES)


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No resolution finds anything, as without a network."""

    def failed(*_: object) -> str:
        raise ProgramFailed(Failure("raised", "Failed", "no index"))

    monkeypatch.setattr(lock_command, "resolver", lambda *_: failed)


def lock_of(root: Path, name: str) -> Path:
    return root / "environments" / name / "requirements.lock"


def run(root: Path, *words: str) -> int:
    return main([words[0], "--root", str(root), *words[1:]])


def test_environments_share_a_lock_without_other_versions(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: lock_of(root, name).read_bytes() for name in NAMES}
    repository = Repository.load(root)
    entries, old = repository.registry.environments, repository.packages
    key = venv_key(lock_of(root, "gsm8k"), own_interpreter())

    assert run(root, "lock", "--shared", "v1") == exit_codes.PASS

    printed = capsys.readouterr()
    assert "gsm8k: renewed, locks/v1.lock" in printed.out
    assert "date-arithmetic: unchanged\n" in printed.out, "it is for another generation of verifiers"
    assert "date-arithmetic: not in locks/v1.lock: verifiers" in printed.err
    for name, text in before.items():
        # the first line names the command
        assert lock_content(lock_of(root, name), root).splitlines()[1:] == text.splitlines()[1:]
    new = Repository.load(root).packages
    for name in new:
        both = (reward_digest(entries[name], each[name]) for each in (old, new))
        assert len({*both}) == 1, "recordings stay valid"
    assert venv_key(lock_of(root, "gsm8k"), own_interpreter()) == key, "nothing is installed again"
    assert (lock_of(root, "gsm8k").stat().st_size, lock_of(root, "reverse_text").stat().st_size) < (400, 400)
    capsys.readouterr()
    assert run(root, "lock", "--shared", "v1") == exit_codes.PASS
    assert "renewed" not in capsys.readouterr().out


def test_lock_of_one_environment_resolves_those_that_share_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(root, "lock", "--shared", "v1")
    shared = (root / "locks/v1.lock").read_bytes()
    capsys.readouterr()

    assert run(root, "lock", "gsm8k") == exit_codes.ERROR

    printed = capsys.readouterr()
    assert "locks/v1.lock: 3 environments" in printed.err
    assert "no index" in printed.err
    assert (root / "locks/v1.lock").read_bytes() == shared, "nothing is written without a resolution"


def test_environment_gets_a_lock_of_its_own_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lock_of(root, "gsm8k").read_text()
    run(root, "lock", "--shared", "v1")
    shared = (root / "locks/v1.lock").read_bytes()
    monkeypatch.setattr("envops.validation.resolve.resolved_lock", lambda *_: before)

    assert run(root, "lock", "--own", "gsm8k") == exit_codes.PASS

    assert lock_of(root, "gsm8k").read_text() == before
    assert (root / "locks/v1.lock").read_bytes() == shared, "the others keep theirs"
    assert not Repository.load(root, set_apart=True).broken


@pytest.mark.parametrize("name", ["a/b", "..", "../a", "A", "", "a..b", ".a", "a" * 61])
def test_invalid_name_of_a_shared_lock_is_refused(root: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        run(root, "lock", "--shared", name)
    assert refused.value.code == exit_codes.USAGE
    assert f"{name!r} is not a name: use lower-case letters and digits" in capsys.readouterr().err


def test_base_of_a_comparison_has_the_shared_lock_of_its_commit(root: Path, tmp_path: Path) -> None:
    run(root, "lock", "--shared", "v1")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "shared")
    before = lock_content(lock_of(root, "gsm8k"), root)
    (root / "locks/v1.lock").unlink()
    entry = Repository.load(root, set_apart=True).registry.environments["gsm8k"]

    _, package = find_base(root, "HEAD").environment(entry, tmp_path / "scratch")

    assert lock_content(package.folder / "requirements.lock", tmp_path / "scratch") == before


def test_proposal_has_the_shared_lock_and_the_versions_of_both_sides(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(root, "lock", "--shared", "v1", "reverse-text", "word-problems")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "shared")
    shutil.rmtree(root / "locks")
    for name in ("reverse_text", "word_problems"):
        shutil.copyfile(lock_of(Path(__file__).parents[2], name), lock_of(root, name))
        edit(lock_of(root, name), "\npropcache==", "\npropcache==99")
    run(root, "lock", "--shared", "v1", "reverse-text", "word-problems")
    capsys.readouterr()
    sent: dict[str, str] = {}
    monkeypatch.setattr("envops.cli.propose.GitHub.of_workflow", lambda: None)
    monkeypatch.setattr("envops.cli.propose.propose", lambda _, __, files, ___: sent.update(files) or "made")

    assert run(root, "propose", "--dry-run") == exit_codes.PASS
    text = capsys.readouterr().out
    rows = [row for row in text.splitlines() if row.startswith(("| `reverse-text`", "| `word-problems`"))]
    assert len(rows) == 2, text
    assert all("| `propcache` | `0." in row and "| `990." in row for row in rows), "the part before, and the part after"
    assert run(root, "propose") == exit_codes.PASS
    assert sorted(sent) == [
        "environments/reverse_text/requirements.lock",
        "environments/word_problems/requirements.lock",
        "locks/v1.lock",
    ]


def test_new_environment_with_equal_requirements_names_the_shared_lock(root: Path, tmp_path: Path) -> None:
    run(root, "lock", "--shared", "v1")
    package = Repository.load(root).packages["gsm8k"]

    found = equal_lock(root, package.requires_to_lock, package.requires_python)

    assert found == lock_of(root, "gsm8k")
    other = small_repository(tmp_path / "other", "gsm8k")
    shutil.copyfile(found, lock_of(other, "gsm8k"))
    copy_shared_lock(found, root, other)
    assert Repository.load(other).packages["gsm8k"].lock == package.lock
    assert not (Workspace(other).base / "locks").exists()


def test_environment_moves_to_another_shared_lock_alone(root: Path) -> None:
    run(root, "lock", "--shared", "v1")
    run(root, "lock", "--shared", "v2", "gsm8k")
    assert {name: len(folders) for name, folders in users_of(root).items()} == {"v1": 2, "v2": 1}
    assert not Repository.load(root, set_apart=True).broken


def test_shared_lock_without_users_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(root, "lock", "--shared", "v1")
    for name in NAMES:
        shutil.copyfile(lock_of(Path(__file__).parents[2], name), lock_of(root, name))
    capsys.readouterr()
    run(root, "lock", "--shared", "v2")
    assert "locks/v1.lock: no environment uses it; remove it" in capsys.readouterr().err
