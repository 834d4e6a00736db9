"""One `prime env push`, of exactly the files and the wheel that were validated.

The CLI builds the wheel itself, with the key in its environment, where a build hook of the
environment could read it. It calls `uv build` for that, by the name `uv`. What it finds under
that name here is a script that copies the tested wheel: nothing is built beside the key, and what
is uploaded is what was tested, byte by byte. Any other use of it ends the push before anything
is sent.
"""

from __future__ import annotations

import re
import shlex
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from envops.hub.access import HubAccess, Prime
from envops.hub.pending_submission import telling_line
from envops.release.steps import Desired
from envops.repository.content import hub_content_hash, hub_files
from envops.repository.package import Package
from envops.system.retry_policy import HUB_PUSH
from envops.system.subprocesses import ProgramFailed, run_program

PUSH_SECONDS = 900.0
"""Two uploads of at most 300 s and seven calls of at most 30 s."""
_BUILDER = """#!/bin/sh
# Replaces uv, which the CLI builds with: copies the tested wheel, and builds nothing.
if [ "$*" = "build --wheel --out-dir dist" ]; then
    mkdir -p dist && exec cp {wheel} dist/
fi
echo "only the tested wheel is published; the CLI ran: uv $*" >&2
exit 1
"""

Blame = Literal["none", "passing", "rights", "taken", "refused", "local"]
"""Why a push failed: it did not (none), a transient error, missing rights, content or version that is published
already (taken), another refusal, or an error on this machine."""

_STATUS = re.compile(r"(?:HTTP |(?:Client|Server) error ')(\d{3})")
_WORDS: Mapping[str, Blame] = {
    "API key unauthorized": "rights",
    "Payment required": "refused",
    "missing a username": "refused",
    "Validation failed": "refused",
    "Build failed": "local",
    "only the tested wheel is published": "local",
    "Failed to parse pyproject.toml": "local",
    "Error: No ": "local",
    "No such option": "local",
}


@dataclass(frozen=True)
class Push:
    """The output of the CLI; only the Hub shows whether the push had an effect."""

    exit_code: int
    said: str
    """Without secrets."""

    @property
    def blame(self) -> Blame:
        """Why the push failed, as far as the output shows."""
        if self.exit_code == 0:
            return "none"
        if "already exists" in self.said:
            return "taken"
        for words, blame in _WORDS.items():
            if words in self.said:
                return blame
        statuses = [int(found) for found in _STATUS.findall(self.said)]
        if not statuses or HUB_PUSH.allows(statuses[-1]):
            return "passing"  # a reset, a timeout, an answer that is not the Hub's
        return "rights" if statuses[-1] in (401, 403) else "taken" if statuses[-1] == 409 else "refused"

    @property
    def short(self) -> str:
        """The line that matters most."""
        return telling_line(self.said)


class SourceDiffers(Exception):
    """The files changed since the plan was made."""


def push_environment(
    desired: Desired, package: Package, wheel: Path, prime: Prime, access: HubAccess, stop: threading.Event
) -> Push:
    """Push once. Raises `SourceDiffers` before anything is sent, `Interrupted` when `stop` is set."""
    with TemporaryDirectory(prefix="envops-push-") as scratch:
        home, tools, source = (Path(scratch) / name for name in ("home", "bin", package.folder.name))
        home.mkdir()
        _stand_in(tools, wheel)
        _copy(package, source)
        if hub_content_hash(source) != desired.content_hash:
            raise SourceDiffers(f"the files of {package.folder.name} changed since the plan was made")
        environment = access.environment(home)
        environment["PATH"] = f"{tools}:{environment.get('PATH', '/usr/bin:/bin')}"
        command: list[str | Path] = [prime.program, "--plain", "env", "push", "--path", source]
        command += ["--visibility", desired.visibility, "--owner", desired.owner]
        if package.declared_name not in ("", desired.name):  # the CLI would take the name as it is written
            command += ["--name", desired.name]
        if package.generation:
            command += ["--runtime", package.generation]
        try:
            said = run_program(command, environment=environment, folder=source, seconds=PUSH_SECONDS, stop=stop)
            return Push(0, access.scrubber.text(said))
        except ProgramFailed as error:
            return Push(1, access.scrubber.text(error.failure.message))


def _stand_in(tools: Path, wheel: Path) -> None:
    tools.mkdir()
    program = tools / "uv"
    program.write_text(_BUILDER.format(wheel=shlex.quote(str(wheel.resolve()))))
    program.chmod(0o755)


def _copy(package: Package, target: Path) -> None:
    """The files of the Hub's archive, and the .gitignore that decides which they are; links stay links."""
    for name in sorted({*package.files, *hub_files(package.folder)}):
        path = target / name
        if any((package.folder / parent).is_symlink() for parent in Path(name).parents):
            continue  # it comes with what the link leads to, which lies inside of the folder
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(package.folder / name, path, follow_symlinks=False)
