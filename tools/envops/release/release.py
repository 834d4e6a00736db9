"""A release: all planned steps in parallel, each on its own evidence; a failing one does not stop the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from envops.hub.access import HubAccess, Prime
from envops.hub.client import HubCall, call_hub
from envops.hub.state import HubIdentity, HubReading, reading_of
from envops.release.evidence import ValidationEvidence
from envops.release.ledger import LedgerEntry
from envops.release.plan import REFUSED, WRITES, ReleasePlan, ReleaseStep
from envops.release.publishing import HubSide, Push, publish, push_environment
from envops.release.pushed_evaluations import EvaluationPusher
from envops.release.verifying import Fetched, Verified, Verifier
from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.system.retry_policy import HUB_PUSH, RetryPolicy
from envops.system.subprocesses import Interrupted, ProgramFailed
from envops.validation.wheel import BuiltWheel, built_wheel

_Given = TypeVar("_Given")
AT_ONCE = 4
"""Environments that are published at the same time; each may start a worker afterwards."""


@dataclass(frozen=True)
class Release:
    """The settings that all environments of a release share."""

    repository: Repository
    workspace: Workspace
    prime: Prime
    access: HubAccess
    identity: HubIdentity
    evidence: Mapping[str, ValidationEvidence]
    no_evidence: str
    """The message for an environment without evidence."""
    uncommitted: Mapping[str, str]
    """Environment → its uncommitted files."""
    stop: threading.Event
    report: Callable[[str], None]
    retry: RetryPolicy = HUB_PUSH

    def apply(self, plan: ReleasePlan, done: Callable[[LedgerEntry], None]) -> None:
        """Carry out the plan; `done` gets each entry whenever it changes, from several threads.

        All wheels are built, then everything is published, then the published wheels are loaded,
        then evaluations are pushed: an environment's code, including its build, never runs beside
        a process that has the key in its variables. Raises `KeyboardInterrupt` once the running
        steps have ended.
        """
        built: dict[str, BuiltWheel] = {}
        fetched: dict[str, Fetched] = {}

        def prepare(step: ReleaseStep) -> LedgerEntry:
            entry = LedgerEntry(step, "not-reached", "not started")
            return self._timed(entry, lambda known: self._refused(plan, step) or self._prepared(known, built))

        def push(entry: LedgerEntry) -> LedgerEntry:
            return self._timed(entry, lambda known: self._pushed(known, built, fetched, folder))

        def load(entry: LedgerEntry) -> LedgerEntry:
            return self._timed(entry, lambda known: self._loaded(known, fetched))

        with self.workspace.scratch() as folder:
            entries = self._side_by_side(prepare, plan.steps, done)
            for act in (push, load, lambda entry: self._timed(entry, self._with_evaluations)):
                entries = self._side_by_side(act, entries, done)

    def _side_by_side(
        self, act: Callable[[_Given], LedgerEntry], given: Sequence[_Given], done: Callable[[LedgerEntry], None]
    ) -> list[LedgerEntry]:
        def carried_out(one: _Given) -> LedgerEntry:
            entry = act(one)
            done(entry)
            return entry

        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = [pool.submit(carried_out, one) for one in given]
            try:
                return [future.result() for future in futures]
            except KeyboardInterrupt:
                self.stop.set()
                for future in futures:
                    future.cancel()
                raise

    def _timed(self, known: LedgerEntry, act: Callable[[LedgerEntry], LedgerEntry]) -> LedgerEntry:
        """The entry after one part of the release; an exception is the result of this environment alone."""
        started = time.monotonic()
        try:
            entry = act(known)
        except Interrupted:
            then = "run the release again"
            cut = replace(known, result="not-reached", message="interrupted", next=then)
            entry = replace(known, next=f"interrupted; {then}") if known.is_ready else cut
        except Exception as error:
            said = self.access.scrubber.text(f"envops failed here: {type(error).__name__}: {error}")
            entry = replace(known, result="unknown", message=said, next="run the release again, and report this")
        return replace(entry, seconds=known.seconds + time.monotonic() - started)

    def _refused(self, plan: ReleasePlan, step: ReleaseStep) -> LedgerEntry | None:
        """The entry of a step that needs no push or may not be pushed; `None` for others."""
        name = step.desired.name
        if step.action == "unchanged":
            return LedgerEntry(step, "unchanged", step.reason)
        if step.action in REFUSED:
            return LedgerEntry(step, "refused", step.reason, step.next)
        if step.action not in WRITES:
            return LedgerEntry(step, "unknown", step.reason, step.next)
        blocked = plan.blocked(name)
        if blocked:
            return LedgerEntry(step, "refused", f"{blocked[0].rule}: {blocked[0].message}", blocked[0].fix)
        if name in self.uncommitted:
            message = f"not committed: {self.uncommitted[name]}"
            return LedgerEntry(step, "refused", message, "commit it: only committed files are published")
        if self.identity.owns(step.desired.owner) is False and step.action == "create":
            return LedgerEntry(
                step, "refused", f"the key does not belong to {step.desired.owner}", "use a key of that owner"
            )
        return None

    def _prepared(self, known: LedgerEntry, built: dict[str, BuiltWheel]) -> LedgerEntry:
        """Check the evidence, and build the wheel that it names."""
        name = known.step.desired.name
        package = self.repository.packages[name]
        known = replace(known, digest=package.digest)
        proof = self.evidence.get(name)
        refusal = self.no_evidence if proof is None else proof.refusal(package)
        if proof is None or refusal:
            return replace(known, result="refused", message=refusal, next=f"nox -s validate -- {name}")
        try:
            made = built_wheel(package, self.workspace, self.stop)
        except ProgramFailed as error:
            message = self.access.scrubber.text(error.failure.message)
            return replace(known, result="failed", message=message, next=f"nox -s schema -- {name}")
        known = replace(known, wheel=made.wheel.sha256, evidence=proof)
        if refusal := proof.refusal(package, made.wheel):
            then = "build it reproducibly (hatchling does), or validate where the release runs"
            return replace(known, result="refused", message=refusal, next=then)
        built[name] = made
        return known

    def _pushed(
        self, known: LedgerEntry, built: Mapping[str, BuiltWheel], fetched: dict[str, Fetched], folder: Path
    ) -> LedgerEntry:
        """Publish, and fetch the published wheel."""
        step, name = known.step, known.step.desired.name
        if name not in built:
            return known
        wheel = built[name].wheel
        self.report(f"{step.desired.address}: {step.action} {step.desired.version}")
        published = publish(step, self._hub_side(step, built[name].overlay.parent / wheel.filename))
        known = replace(
            known, result=published.outcome, message=published.message, next=published.next, published=published
        )
        if published.outcome != "published":
            return known
        known = replace(known, page=self.access.page_of_environment(step.desired.address))
        handed_out = self._verifier.fetch(step.desired, wheel, folder)
        if isinstance(handed_out, Verified):
            return self._verified(known, handed_out)
        fetched[name] = handed_out
        return known

    @property
    def _verifier(self) -> Verifier:
        return Verifier(self.prime, self.access, self.workspace, self.stop, self.retry)

    def _loaded(self, known: LedgerEntry, fetched: Mapping[str, Fetched]) -> LedgerEntry:
        """Install and load the published version."""
        desired = known.step.desired
        if desired.name not in fetched:
            return known
        self.report(f"{desired.address}: installing and loading the published wheel")
        entry, package = self.repository.registry.environments[desired.name], self.repository.packages[desired.name]
        return self._verified(known, self._verifier.load(fetched[desired.name], desired, entry, package))

    def _verified(self, known: LedgerEntry, verified: Verified) -> LedgerEntry:
        desired = known.step.desired
        if not verified.seen:
            then = f"check {desired.address}@{desired.version} on the Hub: no later release checks it again"
            message = f"published, but {verified.message}"
            return replace(known, result="unknown", message=message, next=then, verified=verified)
        if not verified.sound:
            then = f"do not use {desired.address}@{desired.version}; then: nox -s bump -- {desired.name}"
            message = f"published, but {verified.message}"
            return replace(known, result="failed", message=message, next=then, verified=verified)
        self.report(f"{desired.address}: {desired.version} is published, {verified.message}")
        return replace(known, verified=verified)

    def _hub_side(self, step: ReleaseStep, wheel: Path) -> HubSide:
        package = self.repository.packages[step.desired.name]

        def push() -> Push:
            return push_environment(step.desired, package, wheel, self.prime, self.access, self.stop)

        return HubSide(push, lambda: self._read(step), self.stop, self.retry)

    def _read(self, step: ReleaseStep) -> tuple[HubReading, frozenset[str]]:
        address = step.desired.address
        place = f"/environmentshub/{address}"
        calls = [HubCall("status", f"{place}/status"), HubCall("all", f"{place}/versions")]
        answers = call_hub(self.prime, self.access, calls, self.stop)
        data = answers["all"].data
        versions = data.get("data", {}).get("versions", ()) if isinstance(data, dict) else ()
        contents = frozenset(str(each.get("sha256")) for each in versions if isinstance(each, dict))
        return reading_of(answers["status"], address, self.identity), contents

    def _with_evaluations(self, known: LedgerEntry) -> LedgerEntry:
        """Push evaluations, including those of an earlier interrupted release."""
        desired = known.step.desired
        if not known.is_ready or not self.repository.registry.environments[desired.name].publish_evals:
            return known
        pusher = EvaluationPusher(self.prime, self.access, self.stop, self.retry)
        return replace(known, evaluations=pusher.push_all(desired, self.repository.packages[desired.name]))
