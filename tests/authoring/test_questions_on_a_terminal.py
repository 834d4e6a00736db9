"""Without their arguments, on a terminal, `envwright new` and `envwright init` ask; elsewhere they do not wait."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from envwright.authoring.setup.files import ANSWERS_FILE

pytestmark = pytest.mark.slow

TOOL = ("--tool", "our-team/envwright@v0")
ROOT = Path(__file__).parents[2]


def on_a_terminal(words: Sequence[str | Path], typed: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command with a terminal for standard input and error, with a user who types."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    try:
        os.write(ours, typed.encode())
        return subprocess.run(
            [sys.executable, "-m", "envwright", *map(str, words)],
            env=kept | {"PYTHONPATH": str(ROOT / "tools")} | environment,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ((), "town-names\n\nno such kind\ntool\nlabel\n"),
        (("--kind", "tool", "--answer", "label"), "town-names\n\n\n\n"),
    ],
)
def test_new_on_a_terminal_prompts_for_missing_choices(repository: Path, given: tuple[str, ...], typed: str):
    done = on_a_terminal(["new", *given, "--root", repository], typed)
    assert (done.returncode, b"town-names: tool, label, v1" in done.stdout) == (0, True)
    assert (repository / "environments/town_names/town_names/server.py").is_file()


def test_new_in_ci_does_not_prompt(repository: Path):
    assert on_a_terminal(["new", "--root", repository], "town-names\n", CI="true").returncode == 2


def test_init_on_a_terminal_asks_until_it_has_answers(tmp_path: Path):
    done = on_a_terminal(["init", tmp_path, *TOOL], "\nac me\nacme\nreviewers\n@acme/reviewers @ann\nsecret\npublic\n")
    assert done.returncode == 0
    answers = json.loads((tmp_path / ANSWERS_FILE).read_text())["answers"]
    assert (answers["owner"], answers["visibility"]) == ("acme", "PUBLIC")
    assert answers["maintainers"] == ["@acme/reviewers", "@ann"]
