"""What the command line costs before it is asked for anything, and what it says to mistakes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from envops import exit_codes
from envops.cli.main import main, parser

ROOT = Path(__file__).parents[2]
HEAVY = ("verifiers", "datasets", "rich", "jsonschema", "yaml", "pydantic", "psutil")


def imported_by(statement: str) -> set[str]:
    """The heavy modules that a statement leaves imported in a fresh interpreter."""
    code = f"import sys\ntry:\n    {statement}\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()} & set(HEAVY)


def test_help_imports_nothing_heavy() -> None:
    assert imported_by("from envops.cli.main import main; main(['--help'])") == set()


def test_help_of_a_command_imports_nothing_heavy() -> None:
    assert imported_by("from envops.cli.main import main; main(['validate', '--help'])") == set()


def test_the_host_never_imports_verifiers() -> None:
    assert "verifiers" not in imported_by("import envops.cli.validate, envops.cli.lock, envops.cli.docs")


def test_validating_loads_rich_only_for_a_terminal() -> None:
    assert "rich" not in imported_by("import envops.cli.validate")


@pytest.mark.parametrize(
    "command", ["validate", "schema", "rewards", "smoke", "distribution", "lock", "explain", "docs", "site"]
)
def test_every_command_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([command, "--help"])
    assert f"envops {command}" in capsys.readouterr().out.partition("examples:")[2]


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == exit_codes.USAGE
    assert "validate" in capsys.readouterr().out


def test_an_unknown_rule_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "RWD01"]) == exit_codes.USAGE
    assert "did you mean RWD0" in capsys.readouterr().err


def test_a_rule_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "rwd001"]) == exit_codes.PASS
    assert "RWD001" in capsys.readouterr().out


def test_generated_files_are_up_to_date() -> None:
    assert main(["docs", "--check", "--root", str(ROOT)]) == exit_codes.PASS


def test_a_stale_generated_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "registry.yaml").write_text("version: 1\nowner: acme\nenvironments: {}\n")
    assert main(["docs", "--check", "--root", str(tmp_path)]) == exit_codes.FAIL
    assert "CODEOWNERS" in capsys.readouterr().err


def test_generated_files_are_written(tmp_path: Path) -> None:
    (tmp_path / "registry.yaml").write_text("version: 1\nowner: acme\nenvironments: {}\n")
    main(["docs", "--root", str(tmp_path)])
    assert main(["docs", "--check", "--root", str(tmp_path)]) == exit_codes.PASS
