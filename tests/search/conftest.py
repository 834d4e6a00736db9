"""Forked workers and sound oddities, which are kept with the planted defects."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "defects"))
