"""This copy of the tool as a requirement, from what its installer recorded."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from envwright import __version__
from envwright.authoring.setup.files import NoToolAddress, default_tool
from envwright.system.installation import STARTED_BY, command_with, distribution_name, requirement

COMMIT = "a" * 40
GIT = "https://github.com/our-team/envwright"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The metadata of an installed copy; its installer's record is to be written."""
    folder = tmp_path / "envwright-1.2.3.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: envwright\nVersion: 1.2.3\n")
    (folder / "top_level.txt").write_text("envwright\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    distribution_name.cache_clear()
    yield folder / "direct_url.json"
    distribution_name.cache_clear()


@pytest.mark.parametrize(
    ("record", "address"),
    [
        (
            {"url": GIT, "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "a" * 40}},
            f"git+{GIT}@v1",
        ),
        (
            {"url": GIT, "vcs_info": {"vcs": "git", "commit_id": "a" * 40}, "subdirectory": "tools"},
            f"git+{GIT}@{'a' * 40}#subdirectory=tools",
        ),
        ({"url": "file:///w/envwright.whl", "archive_info": {}}, "file:///w/envwright.whl"),
        ({"url": "https://me:word@example.org/envwright.whl", "archive_info": {}}, "https://example.org/envwright.whl"),
    ],
)
def test_requirement_is_the_address_it_was_installed_from(
    recorded: Path, record: dict[str, object], address: str
) -> None:
    recorded.write_text(json.dumps(record))
    assert requirement("prime") == f"envwright[prime] @ {address}"


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Source that the metadata declare, to be replaced."""
    declared = ["https://github.com/upstream/tool"]
    monkeypatch.setattr("envwright.authoring.setup.files.project_address", lambda _: declared[0])
    return declared


@pytest.mark.parametrize(
    ("url", "commit", "tool"),
    [
        ("https://github.com/team/tool.git", COMMIT, f"team/tool@{COMMIT} # v{__version__}"),
        ("ssh://git@github.com/a-fork/tool", COMMIT, f"a-fork/tool@{COMMIT} # v{__version__}"),
        ("https://github.com/team/tool/releases/download/v1.2.3/tool.whl", "", "team/tool@v0"),
        ("file:///w/tool.whl", "", "upstream/tool@v0"),
    ],
)
@pytest.mark.usefixtures("source")
def test_files_of_init_call_what_was_installed(recorded: Path, url: str, commit: str, tool: str) -> None:
    vcs = {"vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": commit}} if commit else {}
    recorded.write_text(json.dumps({"url": url, **vcs}))
    assert default_tool() == tool


@pytest.mark.parametrize(
    ("url", "declared", "said"),
    [
        ("git+https://gitlab.com/team/tool", "https://github.com/upstream/tool", "gitlab.com/team/tool, which is"),
        ("https://github.com.example.org/a/tool", "https://github.com/upstream/tool", "example.org/a/tool, which is"),
        ("", "https://github.com/Acme/envwright", "Acme/envwright is a placeholder"),
        ("", "", "the index, its origin, is not on github.com, and its package declares no"),
    ],
)
def test_copy_from_an_unknown_address_has_no_tool(
    recorded: Path, source: list[str], url: str, declared: str, said: str
) -> None:
    source[0] = declared
    if url:
        recorded.write_text(json.dumps({"url": url, "vcs_info": {"vcs": "git", "commit_id": COMMIT}}))
    with pytest.raises(NoToolAddress, match=re.escape(said)):
        default_tool()


@pytest.mark.parametrize(
    ("origin", "pushed", "tool"),
    [
        ("https://github.com/team/tool.git", True, f"team/tool@COMMIT # v{__version__}"),
        ("git@github.com:team/tool.git", True, f"team/tool@COMMIT # v{__version__}"),
        ("https://ann@github.com/team/tool", False, "FOLDER is on no branch of origin, team/tool: push it"),
        ("git@github.com.example.org:team/tool", True, "the clone FOLDER has no `origin` on github.com"),
        (None, True, "the clone FOLDER has no `origin` on github.com"),
    ],
)
def test_copy_from_a_clone_is_called_at_the_commit_that_its_origin_has(
    recorded: Path, tmp_path: Path, origin: str | None, pushed: bool, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envwright.authoring.setup.files.project_address", lambda _: "")
    folder = tmp_path / "a clone"
    folder.mkdir()
    recorded.write_text(json.dumps({"url": (folder / "tools").as_uri(), "dir_info": {}}))
    commands = ["init -q", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m first"]
    commands += [f"remote add origin {origin}"] if origin else []
    commands += ["update-ref refs/remotes/origin/main HEAD"] if pushed else []
    for command in commands:
        subprocess.run(["git", "-C", folder, *command.split()], check=True)
    head = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    try:
        found = default_tool()
    except NoToolAddress as error:
        found = str(error)
    assert tool.replace("COMMIT", head).replace("FOLDER", str(folder)) in found


def test_requirement_of_a_copy_from_its_source_is_the_source() -> None:
    source = Path(__file__).parents[2] / "tools"
    assert requirement("store") == f"envwright[store] @ {source.as_uri()}"


@pytest.mark.usefixtures("recorded")
def test_requirement_from_an_index_is_the_version() -> None:
    assert requirement() == "envwright==1.2.3"


@pytest.mark.usefixtures("recorded")
def test_command_with_extra_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STARTED_BY, raising=False)
    assert command_with("prime", "envwright plan sums") == "uvx --from 'envwright[prime]==1.2.3' envwright plan sums"


def test_command_with_extra_under_nox_is_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTED_BY, "nox")
    assert command_with("train", "envwright train probe sums") == "nox -s envwright -- train probe sums"
