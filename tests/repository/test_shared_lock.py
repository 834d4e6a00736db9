"""A lock that environments share: its parts, the files that name it, and what is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from envops.repository import read_packages as reading_many
from envops.repository.changes import changed_environments
from envops.repository.lock import parse_lock, render
from envops.repository.problem import Problem
from envops.repository.repository import Repository
from envops.repository.shared_lock import (
    NotTogether,
    RequirementSet,
    composed,
    lock_content,
    naming,
    sets_of,
    users_of,
)
from sample_repository import lock_text, only, write, write_environment, write_repository

PYTHON = ">=3.11,<3.15"
SUMS = ("verifiers>=0.4.0,<0.5",)
WITH_DATA = (*SUMS, "datasets>=3")
HASH = "--hash=sha256:" + "c" * 64
COMMIT = "helper @ git+https://example.org/helper@" + "1" * 40


def with_data() -> str:
    """The lock of `sums` and one more package."""
    pins = [f"{pin.entry} --hash=sha256:{pin.hashes[0]}" for pin in parse_lock(lock_text()).pins]
    return render("\n".join([*pins, f"datasets==3.1.0 {HASH}"]), WITH_DATA, PYTHON)


def inputs_in(text: str) -> str:
    return parse_lock(text).inputs


def share(root: Path, texts: dict[str, str], name: str = "v1") -> None:
    """Write a shared lock of these locks by environment, and the files that name it."""
    write(root, {f"locks/{name}.lock": composed(list(texts.values()))})
    for environment, text in texts.items():
        part = RequirementSet(inputs_in(text), text)
        write(root / "environments" / environment, {"requirements.lock": naming(name, part)})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two environments of which one requires more, and both share a lock."""
    write_repository(tmp_path, "sums", "more")
    project = (tmp_path / "environments/more/pyproject.toml").read_text()
    project = project.replace('["verifiers>=0.4.0,<0.5"]', '["verifiers>=0.4.0,<0.5", "datasets>=3"]')
    write(tmp_path / "environments/more", {"pyproject.toml": project})
    share(tmp_path, {"sums": lock_text(), "more": with_data()})
    return tmp_path


def problems_of(root: Path, name: str = "sums") -> tuple[Problem, ...]:
    return Repository.load(root, set_apart=True).broken.get(name, ())


def test_part_of_a_shared_lock_is_the_lock_of_the_environment_alone(root: Path) -> None:
    for name, text in (("sums", lock_text()), ("more", with_data())):
        assert lock_content(root / "environments" / name / "requirements.lock", root).decode() == text
    packages = Repository.load(root).packages
    assert {name: sorted(package.lock.pins) for name, package in packages.items() if package.lock} == {
        "sums": ["openai", "verifiers"],
        "more": ["datasets", "openai", "verifiers"],
    }, "no environment installs what only another requires"


def test_shared_lock_has_each_entry_once(root: Path) -> None:
    text = (root / "locks/v1.lock").read_text()
    assert [text.count(f"{name}==") for name in ("verifiers", "openai", "datasets")] == [1, 1, 1]
    assert len((root / "environments/sums/requirements.lock").read_bytes()) < 400


def test_own_and_shared_locks_exist_side_by_side(root: Path) -> None:
    write(root / "environments/more", {"requirements.lock": with_data()})
    assert (problems_of(root), problems_of(root, "more")) == ((), ())
    assert users_of(root) == {"v1": [root / "environments/sums"]}


@pytest.mark.parametrize("seed", range(30))
def test_every_part_of_a_composed_lock_is_read_back(tmp_path: Path, seed: int) -> None:
    draw = Random(seed)
    names = [f"p{number}" for number in range(5)]
    versions = {name: draw.choice(["1.0", "2.0"]) for name in names}
    texts: dict[frozenset[str], str] = {}
    for _ in range(draw.randrange(1, 5)):
        requires = draw.sample(names, draw.randrange(5))
        marked = draw.sample(names, 2)
        rows = [
            f"{name}=={versions[name]}{' ; python_version < ' + repr('3.13') if name in marked else ''} {HASH}"
            for name in requires
        ]
        texts[frozenset(requires)] = render("\n".join([*rows, COMMIT]), [*requires, COMMIT], PYTHON)

    shared = composed(list(texts.values()))

    assert shared == composed([*texts.values()][::-1])
    write(tmp_path, {"locks/v1.lock": shared})
    assert {one.text for one in sets_of(tmp_path / "locks/v1.lock", tmp_path)} == set(texts.values())


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (with_data().replace("openai==2.1.0", "openai==2.2.0"), "openai 2.1.0 and 2.2.0"),
        (with_data().replace("b" * 64, "d" * 64), "openai 2.1.0 with other hashes"),
        (lock_text().replace("2.1.0", "2.2.0"), "equal requirements are locked to different versions"),
    ],
    ids=["version", "hash", "same-requirements"],
)
def test_locks_that_differ_in_a_package_are_not_composed(other: str, reason: str) -> None:
    with pytest.raises(NotTogether) as refused:
        composed([lock_text(), other])
    assert reason in str(refused.value)


def edited(old: str, new: str, file: str = "locks/v1.lock") -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new))

    return edit


NAMING = "environments/sums/requirements.lock"
OTHER_CONTENT = "locks/v1.lock has other content for it: one of the two files was changed by hand"


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        (lambda root: (root / "locks/v1.lock").unlink(), f"{NAMING}:4", "names locks/v1.lock, which does not exist"),
        (edited("a" * 64, "e" * 64), f"{NAMING}:3", OTHER_CONTENT),
        (edited("verifiers==0.4.0", "verifiers==0.4.1"), f"{NAMING}:3", OTHER_CONTENT),
        (edited("# of: 1\n", ""), f"{NAMING}:3", OTHER_CONTENT),
        (
            lambda root: share(root, {"more": with_data()}),
            f"{NAMING}:2",
            "locks/v1.lock does not cover these requirements",
        ),
        (edited("../../locks/v1", "../../locks/../v1", NAMING), f"{NAMING}:4", "names no shared lock"),
        (edited("../../locks/v1", "../../locks/a/v1", NAMING), f"{NAMING}:4", "names no shared lock"),
        (edited("../../locks/v1", "../../locks/..", NAMING), f"{NAMING}:4", "names no shared lock"),
        (edited("../../locks/v1", "/etc/v1", NAMING), f"{NAMING}:4", "names no shared lock"),
        (edited("-r ../..", "-r https://example.org", NAMING), f"{NAMING}:4", "names no shared lock"),
        (edited("# content", "# contents", NAMING), f"{NAMING}:3", OTHER_CONTENT),
        (edited(f" \\\n    --hash=sha256:{'a' * 64}", ""), "locks/v1.lock:14", "has no hash"),
        (edited("# of: 1\n", "# of: 1 9\n"), "locks/v1.lock:9", "names a set that is not in this lock"),
        (edited("# of: 1\n", "# of: 1\n\n"), "locks/v1.lock:9", "is above no entry"),
        (edited("# set 2: ", "# set 3: "), "locks/v1.lock:1", "states requirements of a set that it does not have"),
        (lambda root: (root / "locks/v1.lock").write_bytes(b"\xff"), "locks/v1.lock:1", "is not UTF-8 text"),
    ],
    ids=[
        *("missing", "hash", "version", "another-set", "not-covered", "dots", "slash", "only-dots", "absolute"),
        *("address", "no-content", "no-hash", "unknown-set", "stray-of", "unknown-statement", "bytes"),
    ],
)
def test_shared_lock_that_does_not_fit_is_refused_with_place(
    root: Path, change: Callable[[Path], None], place: str, message: str
) -> None:
    change(root)
    problem = only(problems_of(root))
    assert (f"{problem.file}:{problem.line}", problem.message) == (place, message)
    assert problem.fix.startswith("nox -s lock") or "UTF-8" in problem.fix


@pytest.mark.parametrize("linked", ["locks", "locks/v1.lock"])
def test_shared_lock_behind_a_symbolic_link_is_refused(root: Path, linked: str) -> None:
    (root / linked).rename(root / "elsewhere")
    (root / linked).symlink_to(root / "elsewhere")
    problem = only(problems_of(root))
    assert (problem.file, problem.message) == (linked, "is a symbolic link")


def test_requirement_that_was_added_is_named_and_the_lock_is_out_of_date(root: Path) -> None:
    write_environment(root, "sums", {"requirements.lock": (root / NAMING).read_bytes()})
    project = (root / "environments/sums/pyproject.toml").read_text()
    write(root / "environments/sums", {"pyproject.toml": project.replace('"verifiers', '"numpy>=2", "verifiers')})
    problem = only(problems_of(root))
    assert (problem.file, problem.message) == (NAMING, "is out of date")
    assert "numpy>=2 is new" in problem.found


def test_digest_of_an_environment_changes_with_its_own_part_only(root: Path) -> None:
    before = {name: package.digest for name, package in Repository.load(root).packages.items()}
    share(root, {"sums": lock_text(), "more": with_data().replace("datasets==3.1.0", "datasets==3.2.0")})
    after = {name: package.digest for name, package in Repository.load(root).packages.items()}
    assert after["sums"] == before["sums"], "the digest depends on packages of another environment"
    assert after["more"] != before["more"]


def test_remembered_package_is_read_again_if_its_shared_lock_was_edited(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_many, "MANY", 2)
    assert problems_of(root) == ()
    edited("a" * 64, "e" * 64)(root)
    assert only(problems_of(root)).message == OTHER_CONTENT


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *identity, *words], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (
            lambda root: share(root, {"sums": lock_text(), "more": with_data().replace("3.1.0", "3.2.0")}),
            {"more"},
        ),
        (edited("c" * 64, "e" * 64), {"more"}),
        (edited("a" * 64, "e" * 64), {"sums", "more"}),
        (lambda root: (root / "locks/v1.lock").unlink(), {"sums", "more"}),
        (lambda root: write(root, {"locks/unused.lock": "# nothing\n"}), set()),
    ],
    ids=["renewed", "edited-one", "edited-both", "removed", "unused"],
)
def test_change_of_a_shared_lock_is_one_of_those_whose_part_changed(
    root: Path, change: Callable[[Path], object], names: set[str]
) -> None:
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    change(root)
    found = changed_environments(root, "HEAD")
    assert (found.names, found.everything) == (names, False)
