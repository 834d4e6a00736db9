"""Which environments can share a lock: those whose requirements have versions in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from envops.facts.observed import Failure
from envops.repository.lock import LOCK_FILE, render
from envops.repository.package import Package
from envops.repository.pyproject import readable_requirement
from envops.repository.repository import Repository
from envops.repository.shared_lock import lock_content, users_of
from envops.system.subprocesses import ProgramFailed
from envops.validation.resolve_shared import Sharing, resolve_shared, share_locks

PROJECT = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = {requires}
"""


class Index:
    """A package index of some versions, and a resolution that takes the highest."""

    def __init__(self, **versions: Sequence[str]) -> None:
        self.versions = versions
        self.asked: list[tuple[str, ...]] = []

    def resolve(self, requires: Sequence[str], python: str, agreeing: Sequence[str]) -> str:
        self.asked.append(tuple(requires))
        wanted = [found for text in requires if (found := readable_requirement(text))]
        bounds = [found for text in agreeing if (found := readable_requirement(text))]
        rows = []
        for name in sorted({one.name for one in wanted}):
            limits = [one.specifier for one in (*wanted, *bounds) if one.name == name]
            allowed = [each for each in self.versions[name] if all(limit.contains(each) for limit in limits)]
            if not allowed:
                raise ProgramFailed(Failure("raised", "Failed", f"{name} has no such version"))
            hashes = " ".join(f"--hash=sha256:{digit * 64}" for digit in self.hashes(allowed[-1]))
            rows.append(f"{name}=={allowed[-1]} {hashes}")
        return render("\n".join(rows), requires, python)

    def hashes(self, version: str) -> str:
        return version[0]


@pytest.fixture
def index() -> Index:
    return Index(verifiers=["3", "4", "5"], numpy=["1", "2"], pandas=["1", "2"])


def packages_of(root: Path, **requires: list[str]) -> list[Package]:
    for name, texts in requires.items():
        folder = root / "environments" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(PROJECT.format(name=name, requires=texts))
        (folder / f"{name}.py").write_text("")
    entries = "".join(f"  {name}: {{}}\n" for name in requires)
    (root / "registry.yaml").write_text(f"version: 1\nowner: acme\nenvironments:\n{entries}")
    return list(Repository.load(root, with_locks=False).packages.values())


def own_lock(package: Package, index: Index) -> None:
    text = index.resolve(package.requires_to_lock, package.requires_python, ())
    (package.folder / LOCK_FILE).write_text(text)


def entries(root: Path, package: Package) -> list[str]:
    rows = lock_content(package.folder / LOCK_FILE, root).decode().splitlines()
    return [row.split(" ")[0] for row in rows if row[0].isalpha()]


def outcomes(results: Sequence[Sharing]) -> dict[str, str]:
    return {one.package.name: one.apart for one in results}


def test_resolution_gives_all_environments_versions_in_common(tmp_path: Path, index: Index) -> None:
    packages = packages_of(tmp_path, a=["verifiers", "numpy"], b=["verifiers<5"], c=["verifiers", "numpy"])

    results = list(resolve_shared(tmp_path, "v1", packages, index.resolve))

    assert outcomes(results) == {"a": "", "b": "", "c": ""}
    assert [entries(tmp_path, each) for each in packages] == [
        ["numpy==2", "verifiers==4"],
        ["verifiers==4"],
        ["numpy==2", "verifiers==4"],
    ]
    assert len(index.asked) == 4, "equal requirements are resolved once: both sets together twice, and each alone"


def test_resolution_again_changes_nothing(tmp_path: Path, index: Index) -> None:
    packages = packages_of(tmp_path, a=["verifiers", "numpy"], b=["verifiers<5"])
    assert [one.changed for one in resolve_shared(tmp_path, "v1", packages, index.resolve)] == [True, True]
    assert [one.changed for one in resolve_shared(tmp_path, "v1", packages, index.resolve)] == [False, False]


def test_environments_in_conflict_share_no_lock_and_name_both_requirements(tmp_path: Path, index: Index) -> None:
    packages = packages_of(tmp_path, a=["verifiers>=4"], b=["verifiers>=4"], c=["verifiers<4", "numpy"])

    results = list(resolve_shared(tmp_path, "v1", packages, index.resolve))

    assert outcomes(results) == {"a": "", "b": "", "c": "verifiers<4 of c and verifiers>=4 of a exclude each other"}
    assert users_of(tmp_path) == {"v1": [package.folder for package in packages[:2]]}


def test_resolution_of_one_impossible_set_fails(tmp_path: Path, index: Index) -> None:
    packages = packages_of(tmp_path, a=["verifiers>=9"])
    with pytest.raises(ProgramFailed):
        list(resolve_shared(tmp_path, "v1", packages, index.resolve))
    assert not (tmp_path / "locks").exists()


def test_sharing_keeps_versions_that_agree_and_queries_no_index(tmp_path: Path, index: Index) -> None:
    packages = packages_of(tmp_path, a=["verifiers", "numpy"], b=["verifiers"])
    for package in packages:
        own_lock(package, index)
    before = [(package.folder / LOCK_FILE).read_bytes() for package in packages]
    index.versions["verifiers"] = ["6"]
    index.asked.clear()

    assert outcomes(list(share_locks(tmp_path, "v1", packages, index.resolve))) == {"a": "", "b": ""}
    assert [lock_content(package.folder / LOCK_FILE, tmp_path) for package in packages] == before
    assert index.asked == []


def test_sharing_gives_a_different_lock_the_versions_and_hashes_of_the_others(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = packages_of(tmp_path, a=["numpy"], b=["numpy"], c=["numpy", "pandas"])
    index.versions["numpy"] = ["1"]
    for package in packages[:2]:
        own_lock(package, index)
    index.versions["numpy"] = ["1", "2"]
    own_lock(packages[2], index)
    monkeypatch.setattr(index, "hashes", lambda version: f"{version}f")  # the index has one more file of each version

    assert outcomes(list(share_locks(tmp_path, "v1", packages, index.resolve))) == {"a": "", "b": "", "c": ""}
    assert entries(tmp_path, packages[2]) == ["numpy==1", "pandas==2"]
    text = lock_content(packages[2].folder / LOCK_FILE, tmp_path).decode()
    assert (text.count("f" * 64), text.count("1" * 64)) == (1, 1)


def test_sharing_leaves_an_environment_with_other_versions_its_lock(tmp_path: Path, index: Index) -> None:
    packages = packages_of(tmp_path, a=["verifiers>=4"], b=["verifiers>=4"], c=["verifiers<4"])
    for package in packages:
        own_lock(package, index)
    before = (packages[2].folder / LOCK_FILE).read_bytes()

    results = list(share_locks(tmp_path, "v1", packages, index.resolve))

    assert outcomes(results)["c"] == "verifiers<4 of c and verifiers>=4 of a exclude each other"
    assert (packages[2].folder / LOCK_FILE).read_bytes() == before
