"""The release of this package: one version everywhere, what to do when upgrading, and the tag that callers follow."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from called_workflows import ROOT, workflows
from envwright import __version__
from fake_github import FakeGitHub, serving
from merged_repository import tool_repository
from package_release import Refused, refuse_placeholders, section_of
from workflow_runner import Runner

TAG = f"v{__version__}"
SECTION = "### Upgrading\n\nRun `envwright upgrade`.\n\n### Added\n\n- more\n"
CHANGELOG = f"# Changelog\n\n## {__version__} (2026-11-23)\n\n{SECTION}\n## 0.0.1 (2026-01-01)\n\n### Upgrading\n\nno\n"


class TagsAndReleases(FakeGitHub):
    """Tags and releases of a repository, by the paths that are used."""

    def __init__(self) -> None:
        super().__init__()
        self.tags = {TAG: "c" * 40}
        self.releases: list[dict[str, Any]] = []
        self.drafts: list[bool] = []
        """What each write of a release said."""
        self.is_on_main = True
        self.runs: list[dict[str, Any]] = []

    def succeed(self, commit: str) -> None:
        repository = {"full_name": "acme/envs"}
        self.runs = [{"id": 1, "head_sha": commit, "head_branch": "main", "head_repository": repository}]

    def answer(self, method: str, path: str, body: Any) -> Any:
        path = path.removeprefix("/repos/acme/envs/")
        if path.startswith("git/matching-refs/tags/"):
            start = path.removeprefix("git/matching-refs/tags/")
            return [{"ref": f"refs/tags/{tag}"} for tag in self.tags if tag.startswith(start)]
        if path.startswith("git/ref/tags/"):
            return {"object": {"sha": self.tags[path.removeprefix("git/ref/tags/")]}}
        if path.startswith("git/refs"):
            tag = (path if method == "PATCH" else body["ref"]).rpartition("/")[2]
            assert (tag in self.tags) == (method == "PATCH")
            self.tags[tag] = body["sha"]
            return {}
        if path.startswith("compare/main..."):
            return {"status": "behind" if self.is_on_main else "diverged"}
        if path.startswith("actions/workflows/"):
            return {"workflow_runs": self.runs if path.startswith("actions/workflows/release.yml/") else []}
        if method == "GET":
            assert path.startswith("releases?"), path
            return self.releases
        if "draft" in body:
            self.drafts.append(body["draft"])
        if method == "POST":
            self.releases.append({"id": len(self.releases), **body})
        else:
            self.releases[int(path.rpartition("/")[2])].update(body)
        return {}


@pytest.fixture
def fake() -> TagsAndReleases:
    return TagsAndReleases()


@pytest.fixture
def address(fake: TagsAndReleases) -> Iterator[str]:
    with serving(fake) as client:
        yield client.url


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project with a changelog for the tag, as a bare repository."""
    origin = tool_repository(tmp_path_factory.mktemp("tagged"))
    (origin.work / "CHANGELOG.md").write_text(CHANGELOG)
    project = origin.work / "tools" / "pyproject.toml"
    urls = '[project.urls]\nSource = "https://github.com/our-team/envwright"'
    owned = project.read_text().replace("//owner.example/", "//our-team.github.io/").replace("[project.urls]", urls)
    project.write_text(owned)
    origin.commit("a version")
    return origin.bare


@pytest.fixture
def runner(tagged: Path, address: str, tmp_path: Path) -> Runner:
    variables = {"GITHUB_REPOSITORY": "acme/envs", "GITHUB_API_URL": address}
    return Runner(tagged, tmp_path, variables=variables)


SAYS = {"github.ref_name": TAG}


@pytest.fixture
def tagged_commit(tagged: Path) -> str:
    command = ["git", "-C", str(tagged), "rev-parse", "main"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    ("is_on_main", "validated", "said"),
    [(False, "itself", "is not on main"), (True, "another", "no run validated")],
)
def test_commit_that_is_not_validated_on_main_is_not_built(
    is_on_main: bool, validated: str, said: str, runner: Runner, fake: TagsAndReleases, tagged_commit: str
) -> None:
    fake.is_on_main = is_on_main
    fake.succeed(tagged_commit if validated == "itself" else "a" * 40)

    done = runner.run("package.yml", "build", tagged_commit, SAYS)

    assert not done.passed
    assert said in done.output
    assert not (runner.artifacts / "dist").exists()


@pytest.mark.slow
def test_package_is_built_from_the_tag_and_handed_over(
    runner: Runner, fake: TagsAndReleases, tagged_commit: str
) -> None:
    fake.succeed(tagged_commit)

    done = runner.run("package.yml", "build", tagged_commit, SAYS)

    assert done.passed, done.output
    names = {path.name for path in (runner.artifacts / "dist").iterdir() if not path.name.startswith(".")}
    assert names == {f"envwright-{__version__}-py3-none-any.whl", f"envwright-{__version__}.tar.gz"}


@pytest.mark.parametrize(
    "source", [{}, {"Source": "https://github.com/acme/envwright"}, {"Source": "https://a.example"}]
)
def test_package_without_the_addresses_of_an_owner_is_not_built(source: dict[str, str]) -> None:
    owned = {"Source": "https://github.com/our-team/envwright", "Documentation": "https://our-team.github.io/docs/"}
    refuse_placeholders(owned)
    with pytest.raises(Refused, match=r"pyproject.toml: project.urls has no Source of an owner: write your address"):
        refuse_placeholders({"Documentation": owned["Documentation"], **source})


@pytest.mark.slow
def test_package_of_another_version_than_the_tag_is_not_built(
    runner: Runner, fake: TagsAndReleases, tagged_commit: str
) -> None:
    fake.succeed(tagged_commit)

    done = runner.run("package.yml", "build", tagged_commit, {"github.ref_name": "v99.0.0"})

    assert not done.passed
    assert "CHANGELOG.md: its top section is" in done.output


@pytest.mark.slow
def test_release_of_the_tag_has_the_section_and_is_made_once(runner: Runner, fake: TagsAndReleases) -> None:
    (runner.artifacts / "dist").mkdir(parents=True)
    (runner.artifacts / "dist/a.whl").touch()
    for _ in range(2):
        done = runner.run("package.yml", "announce", "main", SAYS)
        assert done.passed, done.output
        assert done.sessions == [f"gh release upload {TAG} dist/a.whl --clobber"]

    assert [(each["tag_name"], each["body"], each["draft"]) for each in fake.releases] == [(TAG, SECTION, False)]
    assert fake.drafts[:2] == [True, False], "a draft until it has its files"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("others", "moves"),
    [({}, True), ({"v0": "a" * 40, "v0.0.9": "a" * 40}, True), ({"v0": "a" * 40, "v0.99.0": "a" * 40}, False)],
    ids=["first", "newer", "older"],
)
def test_major_tag_moves_to_the_newest_version_only(
    others: dict[str, str], moves: bool, runner: Runner, fake: TagsAndReleases
) -> None:
    fake.tags |= others
    before = fake.tags.get("v0")

    done = runner.run("package.yml", "point", "main", SAYS)

    assert done.passed, done.output
    assert fake.tags["v0"] == ("main" if moves else before)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((f"{__version__} (2026-11-23)", "Unreleased"), "its top section is 'Unreleased'"),
        ((f"{__version__} (2026-11-23)", __version__), "YEAR-MONTH-DAY"),
        (("### Upgrading\n\nRun `envwright upgrade`.\n\n", ""), "lacks '### Upgrading': add it"),
        (("Run `envwright upgrade`.", ""), "lacks '### Upgrading': add it"),
    ],
)
def test_changelog_that_is_not_of_the_version_is_refused(change: tuple[str, str], said: str) -> None:
    with pytest.raises(Refused, match=said):
        section_of(TAG, CHANGELOG.replace(*change))


@pytest.mark.parametrize("tag", ["v0", "v0.1", "0.1.0", "v0.1.0rc1", "v0.1.0\n"])
def test_tag_that_is_not_of_a_version_is_refused(tag: str) -> None:
    with pytest.raises(Refused, match="is not the tag of a version"):
        section_of(tag, CHANGELOG)


def test_changelog_of_this_project_has_upgrading_steps() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert section_of(TAG, changelog.replace("## Unreleased\n", f"## {__version__} (2026-11-23)\n", 1))


def test_only_the_job_that_uploads_can_authenticate_to_pypi() -> None:
    jobs = dict(workflows())["package.yml"]["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"actions": "read", "contents": "read"},
        "publish": {"id-token": "write"},
        "announce": {"contents": "write"},
        "point": {"contents": "write"},
    }
    assert "run" not in str([list(step) for step in jobs["publish"]["steps"]])
    assert [job.get("needs") for job in jobs.values()] == [None, "build", "publish", "announce"]
