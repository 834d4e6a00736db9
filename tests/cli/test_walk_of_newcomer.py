"""What commands print where something is missing: the entry or the next command, ready to paste."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import yaml
from envwright import exit_codes
from envwright.cli.main import main
from envwright.declarations.endpoints import ENDPOINTS_FILE, find_endpoint
from envwright.declarations.problem import DeclarationError
from small_repository import small_repository


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_repository(tmp_path_factory.mktemp("repository") / "r", "reverse_text")


def pasted(message: str) -> str:
    """The most deeply indented lines of the message: the text to paste."""
    lines = [line for line in message.splitlines() if line.startswith(" " * 13)]
    return textwrap.dedent("\n".join(lines)) + "\n"


def refusal(root: Path, name: str) -> str:
    with pytest.raises(DeclarationError) as refused:
        find_endpoint(root, name)
    return str(refused.value)


def test_missing_endpoint_prints_an_entry_that_declares_it(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / ENDPOINTS_FILE).write_text(pasted(refusal(tmp_path, "mine")))
    found = find_endpoint(tmp_path, "mine")
    assert (found.name, found.has_prices) == ("mine", True)


def test_endpoint_that_is_an_example_names_its_lines(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    example = (Path(__file__).parents[2] / ENDPOINTS_FILE).read_text()
    (tmp_path / ENDPOINTS_FILE).write_text(example)
    said = refusal(tmp_path, "local")
    assert (found := re.search(r"from line (\d+) on", said)) is not None
    assert example.splitlines()[int(found[1]) - 1] == "# [[endpoint]]"


def refused_train(root: Path, name: str) -> str:
    with pytest.raises(DeclarationError) as refused:
        main(["train", name, "--root", str(root)])
    return str(refused.value)


def test_train_of_an_environment_prints_a_run_that_compiles(root: Path) -> None:
    said = refused_train(root, "reverse-text")
    entry = pasted(said)
    assert list(yaml.safe_load(entry)) == ["reverse-text-run"]
    registry = root / "registry.yaml"
    before = registry.read_text()
    registry.write_text(f"{before}runs:\n{textwrap.indent(entry, '  ')}")
    try:
        assert main(["train", "compile", "reverse-text-run", "--root", str(root)]) == exit_codes.PASS
    finally:
        registry.write_text(before)
    assert "envwright train compile reverse-text-run" in said


def test_train_of_an_unknown_name_prints_how_a_run_is_declared(root: Path) -> None:
    assert "`envwright train ENVIRONMENT` shows an entry" in refused_train(root, "nothing")
