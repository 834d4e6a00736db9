"""What this machine and this repository have of what the project needs. Nothing is changed, and no key is read."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envops.hub.access import find_prime
from envops.repository.endpoints import ENDPOINTS_FILE, Endpoint, read_endpoints
from envops.repository.problem import DeclarationError, Problem
from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.validation.venv import is_sound, uv_program

PROGRAM_SECONDS = 10.0
REACH_SECONDS = 4.0


@dataclass(frozen=True)
class Reach:
    """An endpoint of configs/endpoints.toml, as far as this machine can tell without its key."""

    name: str
    key_variable: str
    key_is_set: bool
    reached: str | None
    """What came back, such as `HTTP 401`; `None` where nothing did, or nobody asked."""
    failure: str = ""


@dataclass(frozen=True)
class Machine:
    """The facts; what they mean is judged elsewhere."""

    python: str
    uv: str | None
    git: str | None
    is_repository: bool
    has_identity: bool
    free_bytes: int
    prime: str | None
    prime_key: str | None
    """Where a key for Prime is: a variable or a file, by name. Never the key."""
    hub_token: bool
    writes_bytecode: bool
    endpoints: tuple[Reach, ...] = ()
    problems: tuple[Problem, ...] = ()
    environments: int = 0
    venvs: tuple[Path, ...] = ()
    unsound: tuple[Path, ...] = field(default=())
    """Virtual environments of which something is missing."""


def look(root: Path, variables: Mapping[str, str], *, offline: bool = False) -> Machine:
    """Look at everything once. With `offline` no endpoint is asked."""
    endpoints, problems = _endpoints(root)
    environments = 0
    try:
        environments = len(Repository.load(root).packages)
    except DeclarationError as error:
        problems += error.problems
    venvs = sorted(path for path in Workspace(root).venvs.glob("[!.]*") if path.is_dir())
    prime = find_prime(variables.get("PATH"))
    return Machine(
        python=platform.python_version(),
        uv=_version(_uv),
        git=_version(lambda: ["git"], variables),
        is_repository=_says(["git", "-C", str(root), "rev-parse", "--git-dir"], variables) is not None,
        has_identity=bool(_says(["git", "-C", str(root), "config", "user.email"], variables)),
        free_bytes=shutil.disk_usage(root).free,
        prime=None if prime is None else _version(lambda: [str(prime.program)], variables),
        prime_key=_prime_key(variables),
        hub_token="HF_TOKEN" in variables or (_home(variables) / ".cache" / "huggingface" / "token").is_file(),
        writes_bytecode=not variables.get("PYTHONDONTWRITEBYTECODE"),
        endpoints=tuple(_reach(endpoint, variables, offline) for endpoint in endpoints),
        problems=tuple(problems),
        environments=environments,
        venvs=tuple(venvs),
        unsound=tuple(path for path in venvs if not is_sound(path)),
    )


def _endpoints(root: Path) -> tuple[list[Endpoint], list[Problem]]:
    if not (root / ENDPOINTS_FILE).is_file():
        return [], []
    try:
        return list(read_endpoints(root).values()), []
    except DeclarationError as error:
        return [], list(error.problems)


def _uv() -> list[str]:
    return [str(uv_program())]


def _version(program: Callable[[], list[str]], variables: Mapping[str, str] | None = None) -> str | None:
    """What a program says to `--version`, without its name; `None` where it does not run."""
    try:
        said = _says([*program(), "--version"], variables)
    except (ImportError, OSError):
        return None
    found = re.search(r"\d+(?:\.\d+)+\S*", said or "")
    return found[0] if found else None


def _says(command: list[str], variables: Mapping[str, str] | None) -> str | None:
    """The output of a command that ended well."""
    try:
        done = subprocess.run(
            command,
            env=None if variables is None else dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _home(variables: Mapping[str, str]) -> Path:
    return Path(variables.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - of these variables, not of ours


def _prime_key(variables: Mapping[str, str]) -> str | None:
    if variables.get("PRIME_API_KEY"):
        return "PRIME_API_KEY"
    config = _home(variables) / ".prime" / "config.json"
    try:
        return "~/.prime/config.json" if json.loads(config.read_text("utf-8")).get("api_key") else None
    except (OSError, ValueError, AttributeError):
        return None


def _reach(endpoint: Endpoint, variables: Mapping[str, str], offline: bool) -> Reach:
    """Ask an endpoint for its models, without a key: any answer shows that it is there."""
    is_set = not endpoint.key_variable or bool(variables.get(endpoint.key_variable))
    if offline:
        return Reach(endpoint.name, endpoint.key_variable, is_set, None)
    try:
        with urllib.request.urlopen(f"{endpoint.url.rstrip('/')}/models", timeout=REACH_SECONDS) as answer:
            return Reach(endpoint.name, endpoint.key_variable, is_set, f"HTTP {answer.status}")
    except urllib.error.HTTPError as error:
        return Reach(endpoint.name, endpoint.key_variable, is_set, f"HTTP {error.code}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return Reach(endpoint.name, endpoint.key_variable, is_set, None, str(reason))
