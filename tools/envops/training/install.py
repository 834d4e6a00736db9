"""How the environments of a run come to the machine that trains."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envops.training.trainers.trainer import Environment, Request


def install_lines(request: Request, into: str) -> list[str]:
    """One line of shell per environment: the folder of this repository, or the Hub's package."""
    used = {source.id: request.environment(source) for source in (*request.spec.environments, *request.spec.evaluated)}
    return [_line(environment, into) for environment in used.values()]


def _line(environment: Environment, into: str) -> str:
    if environment.external:
        return f"prime env install {shlex.quote(f'{environment.hub}@{environment.version}')}"
    return f"{into} {shlex.quote(f'environments/{environment.module}')}"
