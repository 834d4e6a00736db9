"""A release: every planned step, side by side, each on its own evidence; one that fails stops no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from envops.act.evaluations import EvaluationPusher
from envops.act.evidence import Evidence
from envops.act.ledger import Entry
from envops.act.patience import USUAL_PATIENCE, Patience
from envops.act.publishing import HubSide, publish
from envops.act.pushing import Push, push_environment
from envops.act.verifying import Verifier
from envops.declare.repository import Repository
from envops.judge.releasing import REFUSED, WRITES, Plan, Step
from envops.observe.facts import Wheel
from envops.observe.hub.access import HubAccess
from envops.observe.hub.asking import Call, ask_hub
from envops.observe.hub.prime import Prime
from envops.observe.hub.state import Identity, Reading, reading_of
from envops.observe.subprocesses import Interrupted, ProgramFailed
from envops.observe.wheel import built_wheel
from envops.observe.workspace import Workspace

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
        """Carry out the plan; `done` gets each entry when it is complete, from several threads.

        Raises `KeyboardInterrupt` once what was under way has come to its end.
        """
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = [pool.submit(self._carry_out, plan, step, done) for step in plan.steps]
            try:
                for future in futures:
                    future.result()
            except KeyboardInterrupt:
                self.stop.set()
                for future in futures:
                    future.cancel()
                raise

    def _carry_out(self, plan: Plan, step: Step, done: Callable[[Entry], None]) -> None:
        done(self._entry(plan, step))

    def _entry(self, plan: Plan, step: Step) -> Entry:
        started = time.monotonic()
        try:
            entry = self._with_evaluations(self._refused(plan, step) or self._released(step))
        except Interrupted:
            entry = Entry(step, "not-reached", "the release was interrupted", "run it again: it reads first")
        except Exception as error:
            message = f"envops failed here: {type(error).__name__}: {error}"
            entry = Entry(step, "unknown", self.access.scrubber.text(message), "run the release again, and report this")
        return replace(entry, seconds=time.monotonic() - started)

    def _refused(self, plan: Plan, step: Step) -> Entry | None:
        """What needs no push, or may have none."""
        name = step.desired.name
        if step.action == "unchanged":
            return Entry(step, "unchanged", step.reason, digest=self.repository.packages[name].digest)
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

    def _released(self, step: Step) -> Entry:
        name = step.desired.name
        package = self.repository.packages[name]
        proof = self.evidence.get(name)
        refusal = self.no_evidence if proof is None else proof.refusal(package)
        if refusal:
            return Entry(step, "refused", refusal, f"nox -s validate -- {name}", digest=package.digest)
        try:
            built = built_wheel(package, self.workspace, self.stop)
        except ProgramFailed as error:
            message = self.access.scrubber.text(error.failure.message)
            return Entry(step, "failed", message, f"nox -s schema -- {name}", digest=package.digest)
        assert proof is not None
        if refusal := proof.refusal(package, built.wheel):
            then = "build it reproducibly (hatchling does), or validate where the release runs"
            return Entry(step, "refused", refusal, then, digest=package.digest, wheel=built.wheel.sha256)
        self.tell(f"{step.desired.address}: {step.action} {step.desired.version}")
        published = publish(step, self._hub_side(step, built.overlay.parent / built.wheel.filename))
        known = Entry(
            step, published.outcome, published.message, published.next, package.digest, built.wheel.sha256, published
        )
        if published.outcome != "published":
            return known
        return self._verified(known, built.wheel)

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

    def _verified(self, known: Entry, proven: Wheel) -> Entry:
        desired = known.step.desired
        entry = self.repository.registry.environments[desired.name]
        package = self.repository.packages[desired.name]
        verifier = Verifier(self.prime, self.access, self.workspace, self.stop)
        verified = verifier.verify(desired, entry, package, proven)
        if not verified.sound:
            then = f"do not use {desired.address}@{desired.version}; then: nox -s bump -- {desired.name}"
            return replace(
                known, result="failed", message=f"published, but {verified.message}", next=then, verified=verified
            )
        self.tell(f"{desired.address}: {desired.version} is there, {verified.message}")
        return replace(known, verified=verified)

    def _with_evaluations(self, known: Entry) -> Entry:
        """Also where nothing was published now: an earlier release may have been cut short before this."""
        desired = known.step.desired
        if not known.is_ready or not self.repository.registry.environments[desired.name].publish_evals:
            return known
        pusher = EvaluationPusher(self.prime, self.access, self.stop, self.patience)
        return replace(known, evaluations=pusher.push_all(desired, self.repository.packages[desired.name]))
