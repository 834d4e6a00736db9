"""Commands in Markdown: fenced blocks of `sh`, and the reasons why some are not run."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ("cli.md", "registry.md", "rules.md")
"""Made from the code that parses commands, and compared with it by a test of their own."""
PAGES = (
    "README.md", "AGENTS.md", "CONTRIBUTING.md", ".github/pull_request_template.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED),
)  # fmt: skip
BLOCK = re.compile(
    r"(?:^[ ]*<!-- not run: (?P<reason>[^>]+?) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^(?:\$ )?(?:nox|envwright|python3?|pip|git|prime|vf-eval|uvx?|export|pytest) ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None
    """Why it is not run, and what stands in for it."""

    @property
    def has_commands(self) -> bool:
        return self.language == "sh" or (self.language in ("", "console") and bool(COMMAND.search(self.text)))


def blocks(page: str, text: str) -> list[Block]:
    """All fenced blocks of a page."""
    return [
        Block(page, text.count("\n", 0, found.start("text")), found["language"], found["text"], found["reason"])
        for found in BLOCK.finditer(text)
    ]


@cache
def sessions() -> dict[str, str]:
    """The nox sessions that are one command of the tool, and which."""
    found: dict[str, str] = {}
    for function in ast.parse((ROOT / "noxfile.py").read_text("utf-8")).body:
        for part in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
            if isinstance(part, ast.Call) and getattr(part.func, "id", "") == "envwright":
                found[function.name] = next(one.value for one in part.args if isinstance(one, ast.Constant))
    return found


NOX = '''#!{python}
"""nox without its installing: runs a session's command with the tool of this clone."""
import os, sys

SESSIONS = {sessions}
arguments = sys.argv[1:]
assert arguments[0] == "-s", arguments
command = [SESSIONS[arguments[1]], *(arguments[3:] if arguments[2:3] == ["--"] else arguments[2:])]
os.environ["PYTHONPATH"] = "tools"
os.environ["ENVWRIGHT_STARTED_BY"] = "nox"
os.execv({python!r}, [{python!r}, "-m", "envwright", *command])
'''
ENVWRIGHT = """#!/bin/sh
PYTHONPATH=tools exec {python} -m envwright "$@"
"""
"""The tool of this clone as if it were installed."""
