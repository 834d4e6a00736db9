"""This copy of the tool as a requirement, from what its installer recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from envwright.authoring.setup.answers import default_tool
from envwright.system.installation import STARTED_BY, command_with, requirement

GIT = "https://github.com/acme/envwright"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The metadata of an installed copy; its installer's record is to be written."""
    folder = tmp_path / "envwright-1.2.3.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: envwright\nVersion: 1.2.3\n")
    (folder / "top_level.txt").write_text("envwright\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder / "direct_url.json"


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


def test_files_of_init_name_the_commit_that_was_installed(recorded: Path) -> None:
    vcs = {"vcs": "git", "requested_revision": "v1", "commit_id": "a" * 40}
    recorded.write_text(json.dumps({"url": "https://github.com/team/tool.git", "vcs_info": vcs}))
    assert default_tool() == f"team/tool@{'a' * 40}"


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
