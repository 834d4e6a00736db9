"""What `envops rewards` refuses to be asked, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from envops import exit_codes
from envops.cli.main import main, parser
from envops.repository.problem import DeclarationError

ROOT = Path(__file__).parents[2]


def rewards(*arguments: str) -> int:
    return main(["rewards", "--root", str(ROOT), *arguments])


def test_two_questions_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewards("gsm8k", "--against", "main", "--explain", "RWD001") == exit_codes.USAGE
    assert "one at a time" in capsys.readouterr().err


def test_a_task_without_a_reply_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewards("gsm8k", "--task", "3") == exit_codes.USAGE
    assert "--task belongs to --reply" in capsys.readouterr().err


@pytest.mark.parametrize("names", [(), ("gsm8k", "reverse-text")])
def test_a_reply_belongs_to_one_environment(names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert rewards(*names, "--reply", "4") == exit_codes.USAGE
    assert "belongs to one environment" in capsys.readouterr().err


def test_standard_input_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewards("number-guess", "--reply", "-", "--reply", "-") == exit_codes.USAGE
    assert "can be read once" in capsys.readouterr().err


def test_a_negative_task_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewards("gsm8k", "--reply", "4", "--task", "-1") == exit_codes.USAGE
    assert "counted from 0" in capsys.readouterr().err


def test_an_unknown_rule_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert rewards("gsm8k", "--explain", "RWD01") == exit_codes.USAGE
    assert "did you mean RWD0" in capsys.readouterr().err


def test_an_unknown_revision_is_refused() -> None:
    with pytest.raises(DeclarationError, match="neither a package's folder nor a revision"):
        rewards("gsm8k", "--against", "no-such-revision")


def test_a_folder_is_compared_with_one_environment_only() -> None:
    with pytest.raises(DeclarationError, match="name the one environment"):
        rewards("gsm8k", "reverse-text", "--against", str(ROOT / "environments" / "gsm8k"))


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(DeclarationError, match="no environment of this name"):
        main(["test", "--root", str(ROOT), "no-such-environment"])


def test_everything_behind_the_name_is_pytests() -> None:
    options = parser().parse_args(["test", "gsm8k", "-k", "two words", "-x", "--lf", "--root"])
    assert (options.name, options.pytest) == ("gsm8k", ["-k", "two words", "-x", "--lf", "--root"])


def test_test_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["test", "--help"])
    assert "envops test" in capsys.readouterr().out.partition("examples:")[2]
