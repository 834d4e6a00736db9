"""The picture of the terminal for the README: a real `validate` of three environments, one with a planted defect."""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

from envwright.system.installation import STARTED_BY
from monorepo import git
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
SHOWN = ("date_arithmetic", "reverse_text", "word_problems")
SOUND = "return float(whole_number(final_answer(trace.last_reply)) == self.data.answer)"
PLANTED = "return float(abs((whole_number(final_answer(trace.last_reply)) or 0) - self.data.answer) <= 1)"
COLUMNS = 100
COMMAND = "$ envwright validate"
HIDDEN = ("NO_COLOR", "CI", STARTED_BY)
"""Variables that change what is printed."""
_FONT = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
"""Fonts of another host, in rich's format."""


def terminal_picture(folder: Path) -> str:
    """An SVG with what `validate` prints in a new repository at the folder."""
    _make_repository(folder)
    return drawn(f"{COMMAND}\n{_printed(folder)}")


def drawn(text: str) -> str:
    """An SVG of coloured text, in the reader's own fonts."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(text.rstrip()), soft_wrap=True)
    made = console.export_svg(title="envwright validate", code_format=_FONT.sub("", CONSOLE_SVG_FORMAT), unique_id="t")
    return f"{made.replace('Fira Code, ', '')}\n"


def _make_repository(folder: Path) -> None:
    for name in SHOWN:
        ignored = shutil.ignore_patterns("recordings", "__pycache__")
        shutil.copytree(ROOT / "environments" / name, folder / "environments" / name, ignore=ignored)
    module = folder / "environments" / "word_problems" / "word_problems" / "taskset.py"
    before = module.read_text(encoding="utf-8")
    if SOUND not in before:
        raise ValueError(f"word_problems has no line {SOUND!r} to plant a defect in")
    module.write_text(before.replace(SOUND, PLANTED), encoding="utf-8")
    entries = "".join(f"  {name.replace('_', '-')}: {{owners: ['@acme/environments']}}\n" for name in SHOWN)
    (folder / "registry.yaml").write_text(f"version: 1\nowner: acme\nenvironments:\n{entries}")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")


def _printed(folder: Path) -> str:
    """What the command prints on a terminal, without its progress."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "envwright", "validate"]
    shown = {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "tools")}
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN} | shown
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, cwd=folder, env=environment) as started:
        os.close(theirs)
        text = b""
        while part := _read(ours):
            text += part
    os.close(ours)
    if started.returncode not in (0, 1):
        raise RuntimeError(f"validate ended with {started.returncode}: {text.decode(errors='replace')}")
    return text.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux, once the other end is closed
        return b""
