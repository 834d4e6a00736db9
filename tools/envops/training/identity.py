"""What a run is called on the platform, so that it is found again.

The name is `RUN-DIGEST-COMMIT`. The digest covers what was declared and the exact content of
the environments; a change of either is another run. The commit says where to read it up, and
does not count when the run is looked for: the next merge that changes neither must not start it
again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envops.repository.package import Package
    from envops.training.trainers.trainer import CompileRequest

NOT_IDENTITY = ("submit", "budget", "ignore")
"""Keys that change when and whether a run is submitted, and nothing about the run itself."""
DIGEST_LENGTH = 12
LONGEST_STEM = 40


@dataclass(frozen=True)
class RunIdentity:
    """One version of a declared run."""

    run: str
    digest: str
    commit: str = ""

    @property
    def stem(self) -> str:
        """What the names of all versions of the run begin with."""
        return f"{self.run[:LONGEST_STEM].rstrip('.-').replace('.', '-')}-"

    @property
    def mark(self) -> str:
        """What the names of this version begin with, whatever the commit."""
        return f"{self.stem}{self.digest}"

    @property
    def name(self) -> str:
        """The whole name."""
        return f"{self.mark}-{self.commit[:7]}" if self.commit else self.mark

    def is_this(self, name: str) -> bool:
        """Whether a run of the platform is this version of this run."""
        return name == self.mark or name.startswith(f"{self.mark}-")

    def is_another_version(self, name: str) -> bool:
        """Whether it is this run as it was declared or published at another time."""
        rest = name.removeprefix(self.stem) if name.startswith(self.stem) else ""
        digest = rest.partition("-")[0]
        looks = len(digest) == DIGEST_LENGTH and set(digest) <= set("0123456789abcdef")
        return looks and not self.is_this(name)


def identity_of(
    request: CompileRequest, declared: Mapping[str, Any], packages: Mapping[str, Package], commit: str
) -> RunIdentity:
    """The identity of a run as it is declared and as its environments lie here."""
    spec = request.spec
    used = {source.id for source in (*spec.environments, *spec.evaluated)}
    environments = {
        name: [request.environments[name].hub, request.environments[name].version, _content(packages.get(name))]
        for name in sorted(used)
    }
    kept = {key: value for key, value in declared.items() if key not in NOT_IDENTITY}
    text = json.dumps([spec.name, kept, environments], sort_keys=True, ensure_ascii=False)
    return RunIdentity(spec.name, hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH], commit)


def _content(package: Package | None) -> str:
    return package.hub_hash if package is not None else ""
