"""Facts of an earlier observation of the same behaviour: only what depends on the changed files is observed again.

The table is in docs/architecture.md#the-cache. An oracle, a pyproject.toml and the files that a wheel installs are
behaviour, whatever they are called.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from envwright_worker.author_tests import CASES_FILE

from envwright.builds.wheel import installed_digest
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Facts
from envwright.facts.stages import StageName
from envwright.files.atomic_write import write_whole
from envwright.observing.facts_cache import INPUTS, facts_file, facts_key, key_parts, read_facts
from envwright.observing.observation_request import ObservationRequest
from envwright.packages.content import strict_digest
from envwright.packages.reply_forms import forms_beside_code
from envwright.system.signature import signed, verified
from envwright.system.workspace import Workspace
from envwright.text.plain_data import foreign_json

DOCUMENTS = ("README.md", "LICENSE", "CHANGELOG.md")
OF_TESTS: tuple[StageName, ...] = ("tests",)
OF_CASES: tuple[StageName, ...] = ("rewards", "mutation", "tests")
SIGNED_AS = "inputs"
PARTS = {
    "tool": "the code of envwright",
    "python": "the interpreter",
    "sandbox": "the sandbox of this machine",
    "lock": "the lock",
    "requests": "its request (arguments, gates, budget, variables, prepared data; with an open network, the day)",
}
"""Parts of a key other than the package itself, those first that change others."""


@dataclass(frozen=True)
class Inputs:
    """Digests of the inputs of an observation, by what depends on them."""

    behaviour: str
    cases: str
    tests: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    """The parts of the facts' key, for people."""


@dataclass(frozen=True)
class EarlierFacts:
    """Facts that hold but for some stages."""

    facts: Facts
    stale: tuple[StageName, ...]

    def with_fresh(self, fresh: Facts) -> Facts:
        """These facts, with the stale stages of a new observation. What it spent is the new one's."""
        earlier, stale = self.facts, self.stale
        return replace(
            earlier,
            key=fresh.key,
            digest=fresh.digest,
            wheel=fresh.wheel,
            unrequired=fresh.unrequired,
            cases=fresh.cases if "rewards" in stale else earlier.cases,
            mutation=fresh.mutation if "mutation" in stale else earlier.mutation,
            tests=fresh.tests if "tests" in stale else earlier.tests,
            network=tuple(dict.fromkeys((*earlier.network, *fresh.network))),
            cuts=(
                *(cut for cut in earlier.cuts if cut.stage not in stale),
                *(cut for cut in fresh.cuts if cut.stage in stale),
            ),
            completed=tuple(stage for stage in earlier.completed if stage not in stale or stage in fresh.completed),
            seconds=fresh.seconds,
            starts=fresh.starts,
        )


def inputs_of(entry: EnvironmentEntry, package: Package, request: ObservationRequest, overlay: Path) -> Inputs:
    """The inputs of an observation of a package and its unpacked wheel. Raises `OSError`."""
    beside = {*DOCUMENTS, CASES_FILE, *package.test_files}
    behaviour = strict_digest(package.folder, tuple(name for name in package.files if name not in beside))
    # Without an oracle, a reply that the README or a test shows may become a reference reply.
    forms = [] if package.has_oracle else list(forms_beside_code(package))
    digest = behaviour + installed_digest(overlay) + (json.dumps(forms) if forms else "")
    cases = tuple(name for name in package.files if name == CASES_FILE)
    return Inputs(
        facts_key(entry, replace(package, digest=digest), request),
        strict_digest(package.folder, cases),
        strict_digest(package.folder, package.test_files),
        key_parts(entry, package, request),
    )


def earlier_facts(inputs: Inputs, environment: str, workspace: Workspace) -> EarlierFacts | None:
    """Facts without a failure that were observed with the same behaviour; `None` if there are none."""
    for path in sorted((workspace.facts / environment).glob(f"*{INPUTS}")):
        with suppress(OSError, ValueError, TypeError):
            kept = foreign_json(verified(path.read_bytes(), SIGNED_AS))
            earlier = Inputs(**kept["inputs"])
            if earlier.behaviour != inputs.behaviour:
                continue
            facts = read_facts(facts_file(workspace, environment, kept["facts"]))
            if facts.environment == environment and facts.key == kept["facts"] and not facts.failures:
                stale = OF_CASES if earlier.cases != inputs.cases else ()
                return EarlierFacts(facts, stale or (OF_TESTS if earlier.tests != inputs.tests else ()))
    return None


def changed_part(entry: EnvironmentEntry, package: Package, workspace: Workspace, request: ObservationRequest) -> str:
    """The part of the key, in words, that differs from that of the last facts; empty if the package alone does."""
    with suppress(OSError, ValueError, KeyError):  # among others, if there are none
        last = max((workspace.facts / entry.name).glob(f"*{INPUTS}"), key=lambda path: path.stat().st_mtime)
        earlier = foreign_json(verified(last.read_bytes(), SIGNED_AS))["inputs"]["parts"]
        now = key_parts(entry, package, request)
        return next((words for part, words in PARTS.items() if earlier[part] != now[part]), "")
    return ""


def remember_inputs(inputs: Inputs, facts: Facts, workspace: Workspace) -> None:
    """Keep the inputs of facts that are in the cache. A full disk only costs time."""
    path = facts_file(workspace, facts.environment, facts.key)
    text = json.dumps({"inputs": asdict(inputs), "facts": facts.key})
    with suppress(OSError):
        write_whole(path.with_suffix(INPUTS), signed(text.encode(), SIGNED_AS))
