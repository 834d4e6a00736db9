"""The imports of the command line, its help, and its messages on mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from envwright import exit_codes
from envwright.cli.main import COMMANDS, GROUPS, main, parsed
from envwright.declarations.problem import DeclarationError
from small_repository import small_repository

ROOT = Path(__file__).parents[2]
HEAVY = {"verifiers", "datasets", "torch", "rich", "jsonschema", "psutil"}


def imported_by(statement: str) -> set[str]:
    """The modules that a statement leaves imported in a fresh interpreter."""
    code = f"import sys\ntry:\n    {statement}\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_help_imports_no_command_and_no_package() -> None:
    found = imported_by("from envwright.cli.main import main; main(['--help'])")
    assert {name for name in found if name.startswith("envwright.")} == {
        "envwright.cli",
        "envwright.cli.main",
        "envwright.exit_codes",
    }
    assert found & (HEAVY | {"yaml", "packaging", "pydantic"}) == set()


@pytest.mark.slow
def test_help_of_a_command_imports_no_other_command() -> None:
    found = imported_by("from envwright.cli.main import main; main(['train', 'compile', '--help'])")
    assert found & HEAVY == set()
    assert "envwright.cli.train" in found
    assert {"envwright.cli.validate", "envwright.cli.models"} & found == set()


@pytest.mark.parametrize("command", ["validate", "lock", "docs", "explain", "shards", "train"])
def test_command_loads_no_heavy_modules(command: str) -> None:
    """`rich` is for progress on a terminal alone, verifiers never for the host."""
    assert imported_by(f"from envwright.cli.main import parser; parser(['{command}'])") & HEAVY == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed([*command.split(), "--help"])
    assert f"envwright {command}" in capsys.readouterr().out.partition("examples:")[2]


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_group_lists_its_commands_with_examples(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed([group, "--help"])
    assert ended.value.code == exit_codes.PASS
    listed, _, examples = capsys.readouterr().out.partition("examples:")
    for command in (name for name in COMMANDS if name.startswith(f"{group} ")):
        assert COMMANDS[command].summary in listed
        assert f"envwright {command}" in examples


@pytest.mark.parametrize("command", [name for name in COMMANDS if " " in name])
def test_help_of_first_word_lists_command_of_two_words(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed([command.partition(" ")[0], "--help"])
    printed = capsys.readouterr().out
    assert f"envwright {command} " in printed
    assert COMMANDS[command].summary in printed


@pytest.mark.parametrize(
    ("words", "expected"), [([], "a command is missing"), (["mrge"], "there is no command 'mrge'")]
)
def test_group_without_known_command_names_them(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(["report", *words])
    assert ended.value.code == exit_codes.USAGE
    assert f"{expected}; use one of: envwright report open, envwright report merge" in capsys.readouterr().err


def test_docs_check_passes_on_this_repository() -> None:
    assert main(["docs", "--check", "--root", str(ROOT)]) == exit_codes.PASS


def test_docs_check_names_stale_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "registry.yaml").write_text("version: 1\nowner: acme\nenvironments: {}\n")
    assert main(["docs", "--check", "--root", str(tmp_path)]) == exit_codes.FAIL
    assert "CODEOWNERS" in capsys.readouterr().err


def test_docs_command_writes_generated_files(tmp_path: Path) -> None:
    (tmp_path / "registry.yaml").write_text("version: 1\nowner: acme\nenvironments: {}\n")
    main(["docs", "--root", str(tmp_path)])
    assert main(["docs", "--check", "--root", str(tmp_path)]) == exit_codes.PASS


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one environment, started from a folder inside it."""
    root = small_repository(tmp_path / "team", "reverse_text")
    (root / "notes").mkdir()
    monkeypatch.chdir(root / "notes")
    return root


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize("name", ["../environments/reverse_text/", "../environments/reverse_text", "reverse-text"])
def test_command_below_the_repository_finds_its_registry(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", name]) == exit_codes.PASS
    assert "acme/reverse-text" in capsys.readouterr().out


def test_command_starts_in_the_named_folder(team: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-C", "team/environments/reverse_text", "plan", "."]) == exit_codes.PASS
    assert (team / "reports" / "plan.json").is_file()


def test_unknown_folder_to_start_in_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["-C", "/nowhere", "plan"])
    assert ended.value.code == exit_codes.USAGE
    assert "-C /nowhere: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["validate", "release --yes"])
def test_command_without_a_registry_writes_nothing(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with suppress(DeclarationError):  # which `run` prints
        assert main(command.split()) == exit_codes.USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [("validat", "did you mean validate?"), ("trian", "did you mean train?"), ("xyzzy", "for all commands:")],
)
def test_unknown_command_names_a_near_one(word: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word])
    assert ended.value.code == exit_codes.USAGE
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("words", [["help", "plan"], ["help"], ["-V"]])
def test_help_and_version_have_their_usual_spellings(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(("usage: envwright", "envwright "))


def test_closed_pipe_is_no_failure() -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; from envwright.cli.main import run; sys.argv[1:] = ['explain']; run()",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.read(10)
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == exit_codes.PASS


def test_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    root = small_repository(tmp_path / "repository", "reverse_text")
    command = [sys.executable, "-m", "envwright", "plan", "--reports", "/sys/envwright"]  # not even root can make it
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == exit_codes.ERROR
    (line,) = done.stderr.splitlines()
    assert line.startswith("envwright: /sys/envwright: ")


def test_explain_has_rules_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "RWD005", "SCH020", "--format", "json"]) == exit_codes.PASS
    rules = json.loads(capsys.readouterr().out)
    assert [(rule["id"], rule["gate"], rule["publishing"]) for rule in rules] == [
        ("RWD005", "rewards", False),
        ("SCH020", "schema", True),
    ]
