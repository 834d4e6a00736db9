"""Flags that became commands still work, with a note that shows the current spelling."""

from __future__ import annotations

import argparse

import pytest
from envwright.cli.main import parsed


def values_of(options: argparse.Namespace, *names: str) -> dict[str, object]:
    return {name: getattr(options, name) for name in ("command", *names)}


@pytest.mark.parametrize(
    ("old", "now", "found"),
    [
        (
            "rewards gsm8k --against main --quiet",
            "rewards diff gsm8k --against main --quiet",
            {"command": "rewards diff", "names": ["gsm8k"], "against": "main", "quiet": True},
        ),
        (
            "rewards gsm8k --explain=RWD010",
            "rewards explain RWD010 gsm8k",
            {"command": "rewards explain", "rule": "RWD010", "names": ["gsm8k"]},
        ),
        (
            "rewards gsm8k --reply 7 --task 3 --reply=-9",
            "rewards reply gsm8k --task 3 -- 7 -9",
            {"command": "rewards reply", "name": "gsm8k", "replies": ["7", "-9"], "task": 3},
        ),
        (
            "distribution gsm8k --results rows.jsonl --format json",
            "distribution results gsm8k --format json rows.jsonl",
            {"command": "distribution results", "name": "gsm8k", "format": "json"},
        ),
        (
            "distribution gsm8k --endpoint qwen --hosted -n 5",
            "distribution hosted gsm8k --endpoint qwen -n 5",
            {"command": "distribution hosted", "name": "gsm8k", "endpoint": "qwen", "tasks": 5},
        ),
        (
            "train --compile-only --check",
            "train compile --check",
            {"command": "train compile", "names": [], "check": True},
        ),
        ("train gsm8k --probe --seed 2", "train probe gsm8k --seed 2", {"command": "train probe", "seed": 2}),
        ("train --config run.toml", "train file run.toml", {"command": "train file"}),
        (
            "train --env a/b --env c/d --model m --yes",
            "train hub a/b c/d --model m --yes",
            {"command": "train hub", "environments": ["a/b", "c/d"], "model": "m", "yes": True},
        ),
        (
            "train maths --requirements",
            "train requirements -- maths",
            {"command": "train requirements"},
        ),
    ],
)
def test_old_flag_is_rewritten_with_a_note(
    old: str, now: str, found: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    options = parsed(old.split())
    assert values_of(options, *found) == found
    assert capsys.readouterr().err == f"note: deprecated; use: envwright {now}\n"


@pytest.mark.parametrize(
    "now",
    ["rewards diff gsm8k --against main", "rewards gsm8k --quiet", "train compile --check", "test gsm8k --config x"],
)
def test_current_spelling_prints_no_note(now: str, capsys: pytest.CaptureFixture[str]) -> None:
    parsed(now.split())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("rewards -- diff", ["diff"]),
        ("rewards --quiet diff", ["diff"]),
        ("distribution -- results hosted", ["results", "hosted"]),
        ("train -- compile", ["compile"]),
    ],
)
def test_environment_named_like_subcommand_is_selected(typed: str, names: list[str]) -> None:
    options = parsed(typed.split())
    assert (options.command, options.names) == (typed.split()[0], names)


def test_incomplete_command_lists_its_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(["report"])
    assert ended.value.code == 2
    assert "envwright report open, envwright report merge" in capsys.readouterr().err
