"""Run by a Python that has prime installed: facts of its command line that envwright relies on, as one JSON object.

python in_prime.py record
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from prime_cli.api.rl import RLRun
from prime_cli.commands import rl
from prime_cli.commands.rl import app
from typer.main import get_command


def record() -> dict[str, Any]:
    """Commands of `prime train` with their options, keys that the CLI keeps to itself, and states of a run."""
    commands = vars(get_command(app))["commands"]
    return {
        "commands": {
            name: sorted(option for each in command.params for option in each.opts if option.startswith("--"))
            for name, command in sorted(commands.items())
        },
        "keys of the CLI alone": sorted(rl._CLI_ONLY_KEYS),
        "default size of a volume": rl.VOLUME_DEFAULT_SIZE,
        "states": sorted(rl.RUN_STATUS_COLORS),
        "final states": sorted(rl.TERMINAL_RUN_STATUSES),
        "restart": " ".join((inspect.getdoc(commands["restart"].callback) or "").split()),
        "resume": " ".join((inspect.getdoc(commands["resume"].callback) or "").split()),
        "fields of a run": sorted(field.alias or name for name, field in RLRun.model_fields.items()),
    }


if __name__ == "__main__":
    print(json.dumps(record()))
