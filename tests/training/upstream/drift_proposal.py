"""The pull request that shows how trainers drifted: their recorded files, and the text of the session."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from envwright.github.api import GitHub
from envwright.github.pull_requests import propose

BRANCH = "envwright/trainers"
TITLE = "Record how the trainers changed"
TEXT = "trainers.md"
"""The session's output, in the folder that the job left."""
MOST_BYTES = 1_000_000
"""Of a recorded file."""
MOST_CHARACTERS = 50_000
"""Of the text of a pull request, which GitHub limits to 65,536."""
ADVICE = """\
The trainers' own code differs from what is recorded. Correct what envwright writes and reads where a name, a key or a
default below changed; `nox -s trainers -- CHECKOUT` shows the rest. Merge this once the tests pass with it.
"""


def propose_drift(github: GitHub, root: Path, left: Path, names: Iterable[str]) -> str:
    """Make or edit the pull request with the recorded files in `left` that differ from those of the commit.

    Only the given names are read: other code wrote the folder. Returns a line about what was done. Raises
    `GitHubError`, and `ValueError` for a file that is no JSON object or too large.
    """
    recorded = Path("tools", "envwright", "training", "trainers", "recorded")
    files = {}
    for name in names:
        path = next(left.rglob(name), None)
        if path is None:
            continue
        if path.is_symlink() or path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{name} is a link or larger than {MOST_BYTES:,} bytes: it is not proposed")
        text = path.read_text("utf-8")
        if not isinstance(json.loads(text), dict):
            raise ValueError(f"{name} is not a JSON object: it is not proposed")
        if not (root / recorded / name).exists() or text != (root / recorded / name).read_text("utf-8"):
            files[(recorded / name).as_posix()] = text
    if not files:
        return "no recorded file differs: nothing to propose"
    head = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    done = propose(github, head.stdout.strip(), files, body_of(left), branch=BRANCH, title=TITLE)
    return f"pull request with {', '.join(files)}: {done}"


def body_of(left: Path) -> str:
    """The text of the pull request: the session's output in a block that its own lines cannot end."""
    path = next(left.rglob(TEXT), None)
    shown = path.read_text("utf-8", "replace")[:MOST_CHARACTERS] if path is not None else "the session left no text"
    return f"{ADVICE}\n~~~~~~~~diff\n{shown.replace('~~~~', '~ ~ ')}\n~~~~~~~~\n"
