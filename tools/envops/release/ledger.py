"""What a release did, as data: kept as an artifact, and the answer to what was published when and on what evidence."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from envops.release.evaluations import PushedEvaluation
from envops.release.evidence import Evidence
from envops.release.publishing import Published
from envops.release.steps import Step
from envops.release.verifying import Verified
from envops.text.scrubbing import Scrubber

FORMAT_VERSION = 1

Result = Literal["published", "unchanged", "refused", "failed", "wedged", "unknown", "not-reached"]


@dataclass(frozen=True)
class Entry:
    """One environment's line."""

    step: Step
    result: Result
    message: str
    next: str = ""
    digest: str = ""
    wheel: str = ""
    """sha256 of the wheel that was proven."""
    evidence: Evidence | None = None
    """The validation that entitles it to be published."""
    published: Published | None = None
    verified: Verified | None = None
    evaluations: tuple[PushedEvaluation, ...] = ()
    seconds: float = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether the Hub has it as it is declared, so that runs may use it."""
        return self.result in ("published", "unchanged")


@dataclass
class Ledger:
    """The whole release."""

    commit: str
    whose: str
    prime: str
    tool: str
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    entries: list[Entry] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False

    def data(self) -> dict[str, Any]:
        """The ledger as plain data."""
        return {
            "version": FORMAT_VERSION,
            "tool": self.tool,
            "prime": self.prime,
            "commit": self.commit,
            "whose": self.whose,
            "began": self.began,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "interrupted": self.interrupted,
            "environments": [_entry_data(entry) for entry in self.entries],
            "runs": self.runs,
        }

    def text(self, scrubber: Scrubber) -> str:
        """The ledger as JSON, without anything secret."""
        return json.dumps(scrubber.value(self.data()), indent=2, ensure_ascii=True) + "\n"


def _entry_data(entry: Entry) -> dict[str, Any]:
    wanted, published = entry.step.desired, entry.published
    return {
        "name": wanted.name,
        "address": wanted.address,
        "package_version": wanted.version,
        "visibility": wanted.visibility,
        "content_hash": wanted.content_hash,
        "digest": entry.digest,
        "wheel": entry.wheel,
        "evidence": asdict(entry.evidence) if entry.evidence else None,
        "planned": entry.step.action,
        "result": entry.result,
        "message": entry.message,
        "next": entry.next,
        "pushes": published.pushes if published else 0,
        "said": list(published.said) if published else [],
        "before": asdict(entry.step.found) if entry.step.found else None,
        "after": asdict(published.after) if published and published.after else None,
        "verified": asdict(entry.verified) if entry.verified else None,
        "evaluations": [asdict(each) for each in entry.evaluations],
        "seconds": round(entry.seconds, 1),
    }
