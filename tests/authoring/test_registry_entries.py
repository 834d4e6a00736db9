"""A new entry in registry.yaml leaves everything else as it is."""

from __future__ import annotations

import pytest
import yaml
from envwright.authoring.new.write import NoPlace, with_entry

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


def test_with_entry_stays_before_the_comment_behind_the_block():
    text = "environments:\n  apples: {}\n\n# runs:\n#   first: {}\n"
    assert with_entry(text, "bananas", []) == text.replace("apples: {}\n", "apples: {}\n  bananas: {}\n")


def test_with_entry_writes_ignored_rules_with_reasons():
    text = with_entry(REGISTRY, "bananas", ["@a/b"], {"RWD052": 'it is "jailed"'})
    assert yaml.safe_load(text)["environments"]["bananas"]["ignore"] == {"RWD052": 'it is "jailed"'}


def test_with_entry_fills_an_empty_registry():
    text = with_entry("version: 1\nenvironments: {}\n", "bananas", ["@a/b"])
    assert yaml.safe_load(text) == {"version": 1, "environments": {"bananas": {"owners": ["@a/b"]}}}


def test_with_entry_keeps_the_indentation():
    text = with_entry("environments:\n    apples:\n        args: {}\n", "bananas", ["@a/b"])
    assert yaml.safe_load(text) == {"environments": {"apples": {"args": {}}, "bananas": {"owners": ["@a/b"]}}}


@pytest.mark.parametrize("text", ["version: 1\n", "environments: {apples: {}}\n"])
def test_with_entry_refuses_inline_environments(text: str):
    with pytest.raises(NoPlace):
        with_entry(text, "bananas", [])
