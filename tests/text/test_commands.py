"""Commands in messages, in the form that the user types."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from envwright.cli.main import COMMANDS, GROUPS
from envwright.reports.json_report import render_json
from envwright.reports.terminal import render_text
from envwright.rules.result import ValidationResult
from envwright.text.commands import SESSIONS_ONLY, STARTED_BY, as_envwright, as_typed
from envwright.text.markdown import prose

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool as it is started by its own name."""
    monkeypatch.delenv(STARTED_BY, raising=False)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("nox -s lock", "envwright lock"),
        ("run `nox -s lock -- sums`.", "run `envwright lock sums`."),
        ("nox -s rewards -- diff sums --against main", "envwright rewards diff sums --against main"),
        ("nox -s validate -- --changed", "envwright validate --changed"),
        ("until `nox -s\nplan`, where", "until `envwright plan`, where"),
        ("nox -s past-run -- release.yml", "envwright past-run release.yml"),
        ("nox -s tests -- tests/docs", "nox -s tests -- tests/docs"),
        ("nox -s NAME -- ARGUMENTS", "nox -s NAME -- ARGUMENTS"),
        ("nox -s lock --names", "envwright lock --names"),
        ("equinox -s lock", "equinox -s lock"),
    ],
)
def test_command_of_installed_tool_starts_with_its_name(written: str, typed: str) -> None:
    assert as_typed(written) == typed == as_envwright(written)


def test_command_under_nox_is_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTED_BY, "nox")
    assert as_typed("nox -s lock -- sums") == "nox -s lock -- sums"


def test_sessions_that_are_not_commands_are_all_known() -> None:
    functions = [
        node for node in ast.parse((ROOT / "noxfile.py").read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    sessions = {
        node.name.replace("_", "-")
        for node in functions
        if any("nox.session" in ast.unparse(each) for each in node.decorator_list)
    }
    assert sessions - {name.split()[0] for name in COMMANDS} - GROUPS.keys() == SESSIONS_ONLY


@pytest.mark.usefixtures("installed")
def test_reports_of_installed_tool_name_its_commands() -> None:
    result = ValidationResult("pass", (), next_command="nox -s bump -- sums")
    assert "\nnext       envwright bump sums\n" in render_text(result)
    assert "nox" not in render_json(result)
    assert prose("first `nox -s lock -- sums`") == "first `envwright lock sums`"


@pytest.mark.parametrize(("started_by", "shown"), [("nox", "nox -s validate"), ("", "envwright validate")])
def test_printed_error_names_command_as_typed(started_by: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "registry.yaml").write_text("version: 1\nowner: acme\nenvironments: {}\nruns: {}\n")
    done = subprocess.run(
        [sys.executable, "-m", "envwright", "site"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools"), STARTED_BY: started_by},
        capture_output=True,
        text=True,
    )
    assert f"run first: {shown}\n" in done.stderr


def test_quoted_text_keeps_its_commands() -> None:
    program = (
        "import sys\n"
        "from envwright.reports.printing import print_text\n"
        "from envwright.text.typed_streams import type_commands\n"
        "type_commands()\n"
        "print('nox -s lock')\n"
        "print_text('│ nox -s lock\\n', quoting=True)\n"
        "print('nox -s plan')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), STARTED_BY: ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "envwright lock\n│ nox -s lock\nenvwright plan\n"
