"""Commands in messages and pages, in the form that the user can type.

The code writes every command as `nox -s COMMAND -- ARGUMENTS`. This form can be found in a sentence, because `--`
separates the arguments; where the tool was not started by nox, it becomes `envwright COMMAND ARGUMENTS`.
"""

from __future__ import annotations

import os
import re

STARTED_BY = "ENVWRIGHT_STARTED_BY"
"""The variable that noxfile.py sets for the programs that it starts, to `nox`."""
SESSIONS_ONLY = frozenset({"bench", "learner", "lint", "models", "pages", "screenshots", "tests", "trainers"})
"""Sessions of the tool's own repository that are not commands of `envwright`."""
_SESSION = re.compile(r"\bnox\s+-s\s+(?P<name>[a-z][a-z-]*)(?:\s+--(?=\s))?")


def is_started_by_nox() -> bool:
    """Whether a session of nox started this process."""
    return os.environ.get(STARTED_BY) == "nox"


def as_typed(text: str) -> str:
    """The text with its commands as the user of this process types them."""
    return text if is_started_by_nox() else as_envwright(text)


def as_envwright(text: str) -> str:
    """The text with its commands as `envwright COMMAND ARGUMENTS`, for files that stay in the repository."""
    return _SESSION.sub(_command, text) if "nox" in text else text


def _command(found: re.Match[str]) -> str:
    return found[0] if found["name"] in SESSIONS_ONLY else f"envwright {found['name']}"
