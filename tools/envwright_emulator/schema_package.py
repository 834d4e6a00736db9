"""A stand-in of prime-rl's schema package, for the real CLI's `prime train validate` on loopback.

The CLI installs the requirements that the platform names and runs its own worker in them (prime 0.18.0,
utils/training_schema_worker.py). This package has what that worker imports. It knows the top keys of a run, read from
`RLConfig.model_fields` of prime-rl 559b44772, and refuses others in pydantic's words. It checks no values.
"""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from envwright.files.atomic_write import write_whole

SCHEMA_COMMIT = "559b44772e471d1538537b8805cc77f3824a5e64"
WHEEL = "prime_rl_configs-0.0.0-py3-none-any.whl"
TOP_KEYS = (
    "trainer orchestrator inference env_vars run output_dir clean log ckpt resume monitors model tokenizer max_steps"
    " seq_len weight_broadcast rollout_transport deployment slurm dry_run"
)
_PYDANTIC = """
class ValidationError(ValueError):
    def __init__(self, keys):
        self.keys = keys

    def errors(self, include_input=True):
        said = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}
        return [{"loc": (key,), **said} for key in self.keys]


class TypeAdapter:
    def __init__(self, type):
        pass

    def dump_python(self, value, mode="python"):
        return value
"""
_RL = """
from types import SimpleNamespace

from pydantic import ValidationError

KEYS = frozenset("{keys}".split())


class Part(dict):
    def __getattr__(self, name):
        value = self.get(name)
        return Part(value) if isinstance(value, dict) else value

    def model_dump(self, **options):
        return dict(self)


class RLConfig(Part):
    model_fields = {{"orchestrator": SimpleNamespace(annotation=dict)}}

    @classmethod
    def model_validate(cls, data):
        unknown = [key for key in data if key not in KEYS]
        if unknown:
            raise ValidationError(unknown)
        deployment = {{"type": "single_node", "num_infer_gpus": 1}} | data.get("deployment", {{}})
        parts = {{part: data.get(part, {{}}) for part in ("trainer", "orchestrator", "inference")}}
        return cls({{**data, **parts, "deployment": deployment}})
"""


def stand_in_install(folder: Path) -> dict[str, Any]:
    """What the platform answers for the installation of its schema; the package is written into the folder.

    The commit is in the wheel's own `direct_url.json`, which stays where a wheel comes from a folder of wheels. The
    CLI takes no other Python than 3.12.
    """
    wheels = folder / "schema"
    if not (wheels / WHEEL).is_file():
        write_whole(wheels / WHEEL, _wheel())
    found = ["--no-index", "--find-links", str(wheels), "prime-rl-configs==0.0.0"]
    return {"python": "3.12", "requirements": found, "constraints": []}


def _wheel() -> bytes:
    url = f"https://github.com/PrimeIntellect-ai/prime-rl/archive/{SCHEMA_COMMIT}.tar.gz"
    info = "prime_rl_configs-0.0.0.dist-info"
    files = {
        "pydantic.py": _PYDANTIC,
        "prime_rl/__init__.py": "",
        "prime_rl/configs/__init__.py": "",
        "prime_rl/configs/rl.py": _RL.format(keys=TOP_KEYS),
        "prime_rl/configs/sft.py": "class SFTConfig: pass\n",
        "prime_rl/utils/__init__.py": "",
        "prime_rl/utils/config.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: prime-rl-configs\nVersion: 0.0.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: envwright\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/direct_url.json": json.dumps({"url": url, "subdirectory": "packages/prime-rl-configs"}),
        f"{info}/RECORD": "",
    }
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return held.getvalue()
