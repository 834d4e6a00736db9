"""A new entry in registry.yaml leaves everything else as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from envwright.authoring.new.write import with_entry
from envwright.declarations import yaml_edits
from envwright.declarations.preparation import Preparation, PreparedDataset
from envwright.declarations.registry import load_registry
from envwright.declarations.yaml_edits import NoPlace, with_lines
from envwright.observing.exploration import write_declaration

REGISTRY = """# yaml-language-server: $schema=registry.schema.json
version: 1
owner: acme       # Hub user
environments:     # one each
  # about apples
  apples:
    owners: ["@a/b"]
    args: {seed: 1}    # why
  # about cherries
  cherries: {}

runs:
  first: {model: m}
"""


@pytest.mark.parametrize(
    ("name", "before"),
    [("bananas", "  # about cherries\n"), ("aaa", "  # about apples\n"), ("dates", "\nruns:\n")],
)
def test_with_entry_inserts_before_the_comment_of_the_next(name: str, before: str):
    text = with_entry(REGISTRY, name, ["@a/b"])
    entry = f'  {name}:\n    owners: ["@a/b"]\n'
    assert f"{entry}{before}" in text
    assert text.replace(entry, "") == REGISTRY


@pytest.mark.parametrize("behind", ["\n# runs:\n#   first: {}\n", "\n# runs: {}", "runs: {}\n", "runs: {}"])
def test_with_entry_stays_before_what_is_behind_the_block(behind: str):
    text = f"environments:\n  apples: {{}}\n{behind}"
    assert with_entry(text, "bananas", []) == text.replace("apples: {}\n", "apples: {}\n  bananas: {}\n")


def test_with_entry_follows_the_indentation_of_the_whole_file():
    text = "  version: 1\n  environments:\n    apples: {}\n  runs: {}\n"
    assert with_entry(text, "bananas", []) == text.replace("apples: {}\n", "apples: {}\n    bananas: {}\n")


@pytest.mark.parametrize("loader", [yaml_edits.LOADER, yaml.SafeLoader], ids=["libyaml", "no libyaml"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["without a mark", "byte order mark"])
def test_with_entry_fills_an_empty_registry(mark: str, loader: type, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(yaml_edits, "LOADER", loader)
    text = with_entry(f"{mark}version: 1\nenvironments: {{}}\n", "bananas", ["@a/b"])
    assert text.startswith(f"{mark}version")
    assert yaml.safe_load(text) == {"version": 1, "environments": {"bananas": {"owners": ["@a/b"]}}}


def test_with_entry_keeps_the_indentation():
    text = with_entry("environments:\n    apples:\n        args: {}\n", "bananas", ["@a/b"])
    assert yaml.safe_load(text) == {"environments": {"apples": {"args": {}}, "bananas": {"owners": ["@a/b"]}}}


@pytest.mark.parametrize("text", ["version: 1\n", "environments: {apples: {}}\n"])
def test_with_entry_refuses_inline_environments(text: str):
    with pytest.raises(NoPlace):
        with_entry(text, "bananas", [])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("apples", "  apples:\n", "  apples:\n    prepare:\n      command: x\n"),
        ("cherries", "  cherries: {}\n", "  cherries:\n    prepare:\n      command: x\n"),
    ],
)
def test_with_lines_adds_to_the_entry_and_keeps_the_rest(name: str, before: str, after: str):
    assert with_lines(REGISTRY, ["environments", name], ["prepare:", "  command: x"]) == REGISTRY.replace(before, after)


@pytest.mark.parametrize("text", [REGISTRY, REGISTRY.replace("cherries: {}", "dates: {seed: 1}")])
def test_with_lines_refuses_an_entry_that_is_no_block(text: str):
    with pytest.raises(NoPlace):
        with_lines(text, ["environments", "dates"], ["prepare:"])


def test_declaration_of_data_is_written_above_other_entries(tmp_path: Path):
    data = Preparation((PreparedDataset("acme/sums", "0" * 40),))
    (tmp_path / "registry.yaml").write_text(REGISTRY.partition("\nruns:")[0])
    assert write_declaration(tmp_path, "apples", data)
    entries = load_registry(tmp_path).environments
    assert {name: entry.prepare for name, entry in entries.items()} == {"apples": data, "cherries": Preparation()}
    assert not write_declaration(tmp_path, "dates", data)


def test_declaration_of_data_keeps_the_line_ends_of_others(tmp_path: Path):
    before = REGISTRY.partition("\nruns:")[0].replace("\n", "\r\n").encode()
    (tmp_path / "registry.yaml").write_bytes(before)
    assert write_declaration(tmp_path, "apples", Preparation((PreparedDataset("acme/sums", "0" * 40),)))
    assert set(before.splitlines(True)) <= set((tmp_path / "registry.yaml").read_bytes().splitlines(True))
