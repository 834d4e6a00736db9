"""Run by a Python that has the files of verl: the names that its trainer logs, read from its source.

python in_verl.py record
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from names_in_source import names_in


def folder_of(package: str) -> Path:
    """The folder of a package, which is not imported."""
    found = find_spec(package)
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


def logged() -> list[str]:
    """The names of a step: of its batch, of its losses and of the worker that trains."""
    verl = folder_of("verl")
    names = names_in(verl / "trainer" / "ppo" / "metric_utils.py", "compute_data_metrics")
    names |= names_in(verl / "trainer" / "ppo" / "core_algos.py") | names_in(verl / "workers" / "utils" / "losses.py")
    worker = names_in(verl / "workers" / "engine_workers.py")
    return sorted({*(name for name in names if "/" in name), *(worker & {"grad_norm", "lr", "loss"})})


if __name__ == "__main__":
    print(json.dumps({"logged": logged()}))
