"""The evidence that a release requires: a passing validation of exactly these files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envops.facts.observed import Wheel
from envops.repository.package import Package
from envops.rules.engine import GATES


@dataclass(frozen=True)
class ValidationEvidence:
    """The result of a validation for one environment."""

    name: str
    verdict: str
    digest: str
    hub_hash: str
    gates: Mapping[str, str]
    wheel: str
    """sha256 of the wheel that was tested; empty if none was built."""
    reason: str = ""

    def refusal(self, package: Package, wheel: Wheel | None = None) -> str:
        """Why the package may not be published on this evidence; empty if it may."""
        if (self.digest, self.hub_hash) != (package.digest, package.hub_hash):
            return f"the validation is for {self.digest[:19]}…, the package is {package.digest[:19]}…"
        missing = [gate for gate in GATES if gate not in self.gates]
        if missing:
            return f"the validation did not check {', '.join(missing)}"
        if self.verdict != "pass":
            return f"the validation is {self.verdict}{f': {self.reason}' if self.reason else ''}"
        if not self.wheel:
            return "the validation has no wheel"
        if wheel is not None and wheel.sha256 != self.wheel:
            there, here = self.wheel[:12], wheel.sha256[:12]
            return f"the wheel built here ({here}…) is not the wheel that was tested ({there}…)"
        return ""


class NoEvidence(Exception):
    """The file holds no evidence."""


def read_evidence(path: Path) -> dict[str, ValidationEvidence]:
    """The evidence of a `validate.json`, by environment. Raises `NoEvidence`."""
    try:
        data = json.loads(path.read_bytes())
        entries = data["environments"]
        return {entry["name"]: _evidence(entry) for entry in entries}
    except OSError as error:
        raise NoEvidence(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoEvidence(f"{path} is not a validate.json: {type(error).__name__} {error}") from None


def _evidence(entry: Mapping[str, Any]) -> ValidationEvidence:
    fired = [
        each["rule"]
        for each in entry.get("findings", ())
        if (each.get("severity") == "error" or each.get("inconclusive")) and not each["ignored"]
    ]
    broke = [f"{each['stage']}: {each['message']}" for each in entry.get("failures", ())]
    return ValidationEvidence(
        name=str(entry["name"]),
        verdict=str(entry["verdict"]),
        digest=str(entry["digest"]),
        hub_hash=str(entry["hub_hash"]),
        gates={str(gate): str(verdict) for gate, verdict in entry["gates"].items()},
        wheel=str((entry.get("wheel") or {}).get("sha256") or ""),
        reason=", ".join(dict.fromkeys(fired)) or "; ".join(broke)[:300],
    )
