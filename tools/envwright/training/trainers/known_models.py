"""Models and chat renderers that trainers know by name: a copy of the tables in the trainers' own packages.

`nox -s models` writes `known_models.json` with `envwright/training/copy_known_models.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

_copied = json.loads(Path(__file__).with_name("known_models.json").read_text(encoding="utf-8"))
RENDERER_OF_MODEL: dict[str, str] = _copied["renderers"]["models"]
"""Models that `renderer = "auto"` of prime-rl resolves: the map of the package renderers."""
RENDERERS: tuple[str, ...] = tuple(_copied["renderers"]["names"])
"""The renderers of prime-rl."""
THINKING_RENDERERS = frozenset(_copied["renderers"]["with enable_thinking"])
"""The renderers with the option `enable_thinking`."""
TINKER_RENDERERS: dict[str, str] = _copied["tinker-cookbook"]["models"]
"""Models of Tinker and the renderer that tinker-cookbook recommends; Tinker refuses others."""
