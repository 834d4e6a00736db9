"""Run by a prime-rl checkout's own Python: checks each TOML with prime-rl's real schema.

`python prime_rl_schema.py FILE…` prints one JSON object: file → null, or the error.
"""

from __future__ import annotations

import copy
import json
import sys
import tomllib
from pathlib import Path

from prime_rl.configs.rl import RLConfig

CLI_KEYS = ("name", "env_file", "env_files", "image_tag", "gpu_type", "volume", "volume_size", "source_ref", "type")
"""What the prime CLI takes out before it validates (prime 0.18.0)."""


def error_of(path: Path) -> str | None:
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    values = {key: value for key, value in values.items() if key not in CLI_KEYS}
    if values.get("deployment", {}).get("type") == "multi_node":
        values.setdefault("slurm", {})
    try:
        config = RLConfig.model_validate(copy.deepcopy(values))
        for part in (config.trainer, config.orchestrator, config.inference):
            if part is not None:
                type(part).model_validate(part.model_dump(mode="json"))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


print(json.dumps({name: error_of(Path(name)) for name in sys.argv[1:]}))
