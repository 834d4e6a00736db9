"""Makes `envwright_worker` importable in a Python without it: run this file by its path.

A virtual environment holds the packages of its lock, and nothing of envwright. The folder above this one is not put on
the path either, because everything in it would be importable too.
"""

import importlib.util
import sys
from pathlib import Path

NAME = "envwright_worker"

if NAME not in sys.modules:
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[NAME])
