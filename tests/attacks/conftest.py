"""Small repositories for attacks, as other folders of tests make them."""

from __future__ import annotations

import sys
from pathlib import Path

for name in ("repository", "rules", "validation"):
    sys.path.append(str(Path(__file__).parents[1] / name))
