"""Flags that say two ways to come by rollouts are refused before anything is read or paid for."""

from __future__ import annotations

from pathlib import Path

import pytest
from envops import exit_codes
from envops.cli.main import main


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--hosted"], "go with --endpoint"),
        (["--hosted", "--endpoint", "e", "--harness", "null"], "--harness plays rollouts here"),
        (["--hosted", "--endpoint", "e", "--pool", "2"], "choose one"),
        (["--hosted", "--results", "rows.jsonl"], "choose one"),
        (["--pool", "2"], "go with --endpoint"),
    ],
)
def test_two_ways_at_once_are_refused(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["distribution", "sums", *flags, "--root", str(tmp_path)]) == exit_codes.USAGE
    assert words in capsys.readouterr().err
