"""A release: every planned step, side by side, each on its own evidence; one that fails stops no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from envops.hub.access import HubAccess
from envops.hub.client import Call, ask_hub
from envops.hub.prime import Prime
from envops.hub.retry_policy import USUAL_PATIENCE, Patience
from envops.hub.state import Identity, Reading, reading_of
from envops.release.evaluations import EvaluationPusher
from envops.release.evidence import Evidence
from envops.release.ledger import Entry
from envops.release.publishing import HubSide, publish
from envops.release.pushing import Push, push_environment
from envops.release.steps import REFUSED, WRITES, Plan, Step
from envops.release.verifying import Fetched, Verified, Verifier
from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.system.subprocesses import Interrupted, ProgramFailed
from envops.validation.wheel import BuiltWheel, built_wheel

_Given = TypeVar("_Given")
AT_ONCE = 4
"""Environments that are published at the same time; each may start a worker afterwards."""


@dataclass(frozen=True)
class Release:
    """Everything that is the same for all environments of one release."""

    repository: Repository
    workspace: Workspace
    prime: Prime
    access: HubAccess
    identity: Identity
    evidence: Mapping[str, Evidence]
    no_evidence: str
    """What to say where an environment has none."""
    uncommitted: Mapping[str, str]
    """Environment → what of it git does not have."""
    stop: threading.Event
    tell: Callable[[str], None]
    patience: Patience = USUAL_PATIENCE

    def apply(self, plan: Plan, done: Callable[[Entry], None]) -> None:
        """Carry out the plan; `done` gets each entry whenever something came of it, from several threads.

        First wheels are built, then everything is published, then what the Hub hands out is
        loaded, then evaluations are pushed: an environment's code, its build among it, never runs
        beside a process that holds the key in its variables. Raises `KeyboardInterrupt` once what
        was under way has come to its end.
        """
        built: dict[str, BuiltWheel] = {}
        fetched: dict[str, Fetched] = {}

        def prepare(step: Step) -> Entry:
            entry = Entry(step, "not-reached", "nothing came of it yet")
            return self._timed(entry, lambda known: self._refused(plan, step) or self._prepared(known, built))

        def push(entry: Entry) -> Entry:
            return self._timed(entry, lambda known: self._pushed(known, built, fetched, folder))

        def load(entry: Entry) -> Entry:
            return self._timed(entry, lambda known: self._loaded(known, fetched))

        with self.workspace.scratch() as folder:
            entries = self._side_by_side(prepare, plan.steps, done)
            for act in (push, load, lambda entry: self._timed(entry, self._with_evaluations)):
                entries = self._side_by_side(act, entries, done)

    def _side_by_side(
        self, act: Callable[[_Given], Entry], given: Sequence[_Given], done: Callable[[Entry], None]
    ) -> list[Entry]:
        def carried_out(one: _Given) -> Entry:
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

    def _timed(self, known: Entry, act: Callable[[Entry], Entry]) -> Entry:
        """What came of one part of the way; whatever goes wrong here is this environment's alone."""
        started = time.monotonic()
        try:
            entry = act(known)
        except Interrupted:
            then = "run it again: it reads first"
            cut = replace(known, result="not-reached", message="interrupted", next=then)
            entry = replace(known, next=f"interrupted; {then}") if known.is_ready else cut
        except Exception as error:
            said = self.access.scrubber.text(f"envops failed here: {type(error).__name__}: {error}")
            entry = replace(known, result="unknown", message=said, next="run the release again, and report this")
        return replace(entry, seconds=known.seconds + time.monotonic() - started)

    def _refused(self, plan: Plan, step: Step) -> Entry | None:
        """What needs no push, or may have none."""
        name = step.desired.name
        if step.action == "unchanged":
            return Entry(step, "unchanged", step.reason)
        if step.action in REFUSED:
            return Entry(step, "refused", step.reason, step.next)
        if step.action not in WRITES:
            return Entry(step, "unknown", step.reason, step.next)
        blocked = plan.blocked(name)
        if blocked:
            return Entry(step, "refused", f"{blocked[0].rule}: {blocked[0].message}", blocked[0].fix)
        if name in self.uncommitted:
            message = f"not committed: {self.uncommitted[name]}"
            return Entry(step, "refused", message, "commit it: what is published must be found in git")
        if self.identity.owns(step.desired.owner) is False and step.action == "create":
            return Entry(step, "refused", f"{step.desired.owner} is not this key's", "use a key of that owner")
        return None

    def _prepared(self, known: Entry, built: dict[str, BuiltWheel]) -> Entry:
        """Look at the evidence, and build the wheel that it is about."""
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
        self, known: Entry, built: Mapping[str, BuiltWheel], fetched: dict[str, Fetched], folder: Path
    ) -> Entry:
        """Publish, and fetch what the Hub hands out then."""
        step, name = known.step, known.step.desired.name
        if name not in built:
            return known
        wheel = built[name].wheel
        self.tell(f"{step.desired.address}: {step.action} {step.desired.version}")
        published = publish(step, self._hub_side(step, built[name].overlay.parent / wheel.filename))
        known = replace(
            known, result=published.outcome, message=published.message, next=published.next, published=published
        )
        if published.outcome != "published":
            return known
        handed_out = self._verifier.fetch(step.desired, wheel, folder)
        if isinstance(handed_out, Verified):
            return self._verified(known, handed_out)
        fetched[name] = handed_out
        return known

    @property
    def _verifier(self) -> Verifier:
        return Verifier(self.prime, self.access, self.workspace, self.stop, self.patience)

    def _loaded(self, known: Entry, fetched: Mapping[str, Fetched]) -> Entry:
        """Install and load what was published."""
        desired = known.step.desired
        if desired.name not in fetched:
            return known
        entry, package = self.repository.registry.environments[desired.name], self.repository.packages[desired.name]
        return self._verified(known, self._verifier.load(fetched[desired.name], desired, entry, package))

    def _verified(self, known: Entry, verified: Verified) -> Entry:
        desired = known.step.desired
        if not verified.seen:
            then = f"look at {desired.address}@{desired.version} on the Hub: no later release looks at it again"
            message = f"published, but {verified.message}"
            return replace(known, result="unknown", message=message, next=then, verified=verified)
        if not verified.sound:
            then = f"do not use {desired.address}@{desired.version}; then: nox -s bump -- {desired.name}"
            message = f"published, but {verified.message}"
            return replace(known, result="failed", message=message, next=then, verified=verified)
        self.tell(f"{desired.address}: {desired.version} is there, {verified.message}")
        return replace(known, verified=verified)

    def _hub_side(self, step: Step, wheel: Path) -> HubSide:
        package = self.repository.packages[step.desired.name]

        def push() -> Push:
            return push_environment(step.desired, package, wheel, self.prime, self.access, self.stop)

        return HubSide(push, lambda: self._read(step), self.stop, self.patience)

    def _read(self, step: Step) -> tuple[Reading, frozenset[str]]:
        address = step.desired.address
        place = f"/environmentshub/{address}"
        calls = [Call("status", f"{place}/status"), Call("all", f"{place}/versions")]
        answers = ask_hub(self.prime, self.access, calls, self.stop)
        data = answers["all"].data
        versions = data.get("data", {}).get("versions", ()) if isinstance(data, dict) else ()
        contents = frozenset(str(each.get("sha256")) for each in versions if isinstance(each, dict))
        return reading_of(answers["status"], address, self.identity), contents

    def _with_evaluations(self, known: Entry) -> Entry:
        """Also where nothing was published now: an earlier release may have been cut short before this."""
        desired = known.step.desired
        if not known.is_ready or not self.repository.registry.environments[desired.name].publish_evals:
            return known
        pusher = EvaluationPusher(self.prime, self.access, self.stop, self.patience)
        return replace(known, evaluations=pusher.push_all(desired, self.repository.packages[desired.name]))
