"""The ledger on disk: written whenever an entry changes, so that a release that is killed leaves what it did.

An environment's entry is written before anything is sent, with the tested wheel. The next release finds it there
without a verified result, and verifies what the Hub has.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envwright.facts.observed import adapter
from envwright.files.atomic_write import write_whole
from envwright.hub.state import HubEnvironment
from envwright.release.evidence import ValidationEvidence
from envwright.release.ledger import FORMAT_VERSION, LedgerEntry, ReleaseLedger, render_release_markdown
from envwright.release.plan import Desired, ReleaseStep
from envwright.release.publishing import Published
from envwright.release.pushed_evaluations import PushedEvaluation
from envwright.release.verifying import Fetched, Verified
from envwright.text.scrubbing import Scrubber

LEDGER = "release.json"
PAGE = "release.md"
CHECKSUMS = "verified.sha256"
PUBLISHED = "published"
"""The folder with the published wheels, each in a folder with the name of its environment."""


class LedgerUnreadable(Exception):
    """The file is not a ledger of a release."""


@dataclass
class LedgerFile:
    """The ledger of a running release, and where it is written."""

    ledger: ReleaseLedger
    folder: Path
    scrubber: Scrubber
    failed: str = ""
    """Why an entry could not be written; empty as long as all were."""
    _held: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Remove what a killed release left half written, and write all entries. Raises `OSError`."""
        for leftover in self.folder.glob(f".{LEDGER}.*"):
            leftover.unlink(missing_ok=True)
        self._write()

    def begin_push(self, entry: LedgerEntry) -> None:
        """Write an entry before anything is sent: nothing may be sent where that fails. Raises `OSError`."""
        with self._held:
            self.ledger.put(entry)
            self._write()

    def record(self, entry: LedgerEntry) -> None:
        """Write an entry after something happened. A full disk does not end the release; `failed` has the reason."""
        with self._held:
            self.ledger.put(entry)
            try:
                self._write()
            except OSError as error:
                self.note(error)

    def note(self, error: OSError) -> None:
        """Keep the reason, and print it once."""
        if not self.failed:
            self.failed = f"{self.folder / LEDGER} cannot be written: {error.strerror or error}"
            print(self.failed, file=sys.stderr)

    def close(self) -> None:
        """Write the ledger, its page, and the hashes of what was verified."""
        page = self.scrubber.text(render_release_markdown(self.ledger))
        try:
            self._write()
            write_whole(self.folder / PAGE, page)
            if checksums := self.ledger.checksums:
                write_whole(self.folder / CHECKSUMS, checksums)
            else:
                (self.folder / CHECKSUMS).unlink(missing_ok=True)
        except OSError as error:
            self.note(error)

    def _write(self) -> None:
        write_whole(self.folder / LEDGER, self.ledger.text(self.scrubber))


def read_ledger(file: Path) -> ReleaseLedger:
    """A ledger from its file. Raises `LedgerUnreadable`."""
    try:
        data = json.loads(file.read_bytes())
        if data["version"] != FORMAT_VERSION:
            raise ValueError(f"its version is {data['version']}, and {FORMAT_VERSION} can be read")
        return ReleaseLedger(
            str(data["commit"]),
            str(data["whose"]),
            str(data["prime"]),
            str(data["tool"]),
            str(data["began"]),
            [_entry(each) for each in data["environments"]],
            list(data["runs"]),
            bool(data["interrupted"]),
            [_entry(each) for each in data.get("earlier", ())],
        )
    except OSError as error:
        raise LedgerUnreadable(f"{file} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LedgerUnreadable(f"{file} is not a release.json: {type(error).__name__} {error}") from None


def _entry(data: Mapping[str, Any]) -> LedgerEntry:
    owner = str(data["address"]).partition("/")[0]
    desired = Desired(data["name"], owner, data["package_version"], data["content_hash"], data["visibility"])
    found = _read(HubEnvironment, data["before"])
    published = Published(
        data["result"], data["message"], data["next"], data["pushes"], tuple(data["said"]),
        _read(HubEnvironment, data["after"]),
    )  # fmt: skip
    return LedgerEntry(
        ReleaseStep(desired, data["planned"], data.get("reason", ""), found=found),
        data["result"],
        data["message"],
        data["next"],
        data["digest"],
        data["wheel"],
        _read(ValidationEvidence, data["evidence"]),
        published if data["pushes"] else None,
        _read(Fetched, data.get("fetched")),
        _read(Verified, data["verified"]),
        tuple(_read(PushedEvaluation, each) for each in data["evaluations"]),
        data["page"],
        data["seconds"],
    )


def _read(kind: type, data: Any) -> Any:
    return None if data is None else adapter(kind).validate_python(data)
