"""Fetching a published wheel and comparing it with the tested one. Nothing of it is read, installed or loaded."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright.hub.access import HubAccess, Prime
from envwright.hub.client import HubAnswer, HubCall, call_hub
from envwright.release.evidence import ValidationEvidence
from envwright.release.plan import Desired
from envwright.release.publishing import READS
from envwright.system.retry_policy import HUB_PUSH, RetryPolicy


@dataclass(frozen=True)
class Verified:
    """The result of verifying a published version."""

    sound: bool
    message: str
    sha256: str = ""
    installed: str = ""
    """The source of its installation: the Hub's index by version, or the downloaded wheel."""
    seen: bool = True
    """Whether it could be checked at all."""


@dataclass(frozen=True)
class Fetched:
    """The published wheel of a version, which has the bytes of the tested one."""

    filename: str
    sha256: str
    index: str = ""
    """The index that it installs from by version; empty if the index is not public."""


@dataclass(frozen=True)
class Verifier:
    """The settings that all versions share."""

    prime: Prime
    access: HubAccess
    stop: threading.Event
    retry: RetryPolicy = HUB_PUSH

    def fetch(self, desired: Desired, proof: ValidationEvidence, folder: Path) -> Fetched | Verified:
        """Fetch the published wheel into a folder and compare it with the tested one; the result if that fails.

        Raises `Interrupted` when `stop` is set.
        """
        said = self._asked(HubCall("details", f"/environmentshub/{desired.address}/@{desired.version}"))
        if said.outcome == "failed":
            return Verified(False, f"the published version could not be read: {said.message}", seen=False)
        details = _details(said)
        address = details.get("wheel_url")
        if not isinstance(address, str) or not address:
            hidden = desired.visibility == "PRIVATE" and bool(details)
            message = f"the Hub has no wheel of {desired.address}@{desired.version}"
            return Verified(hidden, f"{message}; its content hash is the validated one" if hidden else message)
        folder.mkdir(parents=True, exist_ok=True)
        answer = self._asked(HubCall("wheel", download=address, to=str(folder / proof.filename)))
        if answer.outcome != "ok":
            seen = answer.outcome != "failed"
            return Verified(False, f"its wheel could not be downloaded: {answer.message}", seen=seen)
        sha256 = str(answer.data["sha256"])
        if sha256 != proof.wheel:
            return Verified(False, f"its wheel has the hash {sha256}, the tested one has {proof.wheel}", sha256)
        index = details.get("install_index_url") or details.get("simple_index_url")
        return Fetched(proof.filename, sha256, str(index or "") if desired.visibility == "PUBLIC" else "")

    def _asked(self, call: HubCall) -> HubAnswer:
        """The answer of the Hub, read again while that fails."""
        for turn in range(READS - 1):
            answer = call_hub(self.prime, self.access, [call], self.stop)[call.id]
            if answer.outcome != "failed":
                return answer
            self.retry.wait(turn, self.stop)
        return call_hub(self.prime, self.access, [call], self.stop)[call.id]


def _details(answer: HubAnswer) -> dict[str, Any]:
    data = answer.data.get("data", answer.data) if isinstance(answer.data, dict) else None
    return data if isinstance(data, dict) else {}
