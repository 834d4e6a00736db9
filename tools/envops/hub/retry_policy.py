"""How often something is tried at the Hub, and with what pauses."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

from envops.system.subprocesses import Interrupted


@dataclass(frozen=True)
class Patience:
    """Tries, and the pauses between them in seconds."""

    pushes: int = 5
    reads: int = 4
    first_seconds: float = 0.5
    longest_seconds: float = 20.0

    def pause(self, turn: int) -> float:
        """Seconds before the next try: doubling, and never the same for two that began together."""
        return min(self.longest_seconds, self.first_seconds * 2.0**turn) * random.uniform(0.5, 1.5)

    def wait(self, turn: int, stop: threading.Event) -> None:
        """Wait for the next try. Raises `Interrupted` when asked to stop."""
        if stop.wait(self.pause(turn)):
            raise Interrupted


USUAL_PATIENCE = Patience()
