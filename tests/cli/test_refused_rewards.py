"""Arguments that the commands of `envwright rewards` refuse before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
from envwright import exit_codes
from envwright.cli.main import main, parsed
from envwright.declarations.problem import DeclarationError

ROOT = Path(__file__).parents[2]


def rewards(*arguments: str) -> int:
    return main(["rewards", *arguments, "--root", str(ROOT)])


@pytest.mark.parametrize(
    "arguments",
    [
        ("gsm8k", "--task", "3"),
        ("diff", "gsm8k"),
        ("diff", "gsm8k", "--against", "main", "--task", "3"),
        ("explain",),
        ("reply",),
    ],
)
def test_arguments_of_another_command_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        rewards(*arguments)
    assert ended.value.code == exit_codes.USAGE


def test_rewards_reply_from_standard_input_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewards("reply", "number-guess", "-", "-") == exit_codes.USAGE
    assert "can be read once" in capsys.readouterr().err


def test_rewards_against_unknown_revision_is_refused() -> None:
    with pytest.raises(DeclarationError, match="neither a package's folder nor a known git revision"):
        rewards("diff", "gsm8k", "--against", "no-such-revision")


def test_rewards_against_folder_with_two_environments_is_refused() -> None:
    with pytest.raises(DeclarationError, match="name the one environment"):
        rewards("diff", "gsm8k", "reverse-text", "--against", str(ROOT / "environments" / "gsm8k"))


def test_author_tests_pass_other_arguments_to_pytest() -> None:
    options = parsed(["test", "gsm8k", "-k", "two words", "-x", "--lf", "--root"])
    assert (options.name, options.pytest) == ("gsm8k", ["-k", "two words", "-x", "--lf", "--root"])
