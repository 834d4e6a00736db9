"""Scripted policies, each the decorator of the function that makes its replies.

    @Policy("negated", reply="a denial of the right answer", tasks=SOME, bound="below reference")
    def negated(reference: ReferenceReply) -> Iterator[str]:
        '''"not 42" in the answer's place.'''
        yield reference.saying(f"not {reference.payload.answer}")

Scripted policies test an environment. They do not measure its difficulty.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from envwright_worker.policies.answers import Payload, is_json

MANY = 30
"""The number of tasks of most policies: with 95 % probability, at least one of 29 shows a defect of a tenth of the
tasks."""
SOME = 20
"""The number of tasks of a policy with one specific mistake, which shows on nearly any task."""
FEW = 2
"""The number of tasks of a policy whose replies take long to score."""

SCORED_TWICE = 6
"""The number of first replies of each policy that are scored twice: a hundred in all, so that a reward that changes on
one reply of thirty is detected with 97 %."""

Bound = Literal["maximum", "reference", "below reference", "form", "floor"]
BOUNDS: dict[Bound, str] = {
    "maximum": "exactly the maximum",
    "reference": "as much as the reference reply",
    "below reference": "less than the reference reply",
    "form": "the share of form",
    "floor": "the floor",
}
"""The allowed reward of a policy in the documentation's words."""


class UnknownPolicy(LookupError):
    """No policy has this name."""


@dataclass(frozen=True)
class ReferenceReply:
    """The input of a policy; only `asked` has a value if the policy needs no reference reply."""

    reply: str = ""
    payload: Payload = Payload("", "", "")  # noqa: RUF009 - frozen
    wrong: tuple[str, ...] = ()
    """Wrong answers of the same type, the nearest first."""
    type: str = "text"
    tolerance: float = 0.0
    case_sensitive: bool | None = None
    asked: str = ""
    """The text of all messages that the policy replies to."""

    def saying(self, answer: str) -> str:
        """The reply with another answer in its place, in quotes if JSON needs them."""
        bare_json = not self.payload.before.endswith('"') and is_json(self.reply)
        return self.payload.saying(json.dumps(answer, ensure_ascii=False) if bare_json else answer)


Make = Callable[[ReferenceReply], Iterator[str]]
"""Yields the replies of a policy; the first is played in a rollout."""


@dataclass(eq=False)
class Policy:
    """A row of the table."""

    name: str
    _: KW_ONLY
    reply: str
    """Its reply in the words of findings: "an empty reply"."""
    bound: Bound
    tasks: int | None = MANY
    """The number of tasks that it replies to; `None` for all that a job keeps."""
    needs_reference: bool = True
    """Whether its replies are made from the reference reply."""
    needs_answer: bool = False
    """Whether it has a reply only if the environment declares that its tasks have an answer."""
    is_right: bool = False
    """Whether its replies give the right answer."""
    is_repeated: bool = False
    """Whether its replies are scored again under other circumstances."""
    attacks_judges: bool = False
    """Whether its reply is shown to a judge that obeys it."""
    make: Make = field(init=False)

    def __call__(self, make: Make) -> Policy:
        """Register a function that makes replies as this policy."""
        self.make = make
        REGISTERED[self.name] = self
        return self

    @property
    def description(self) -> str:
        """A detailed description of the reply: the docstring of `make`."""
        return " ".join((self.make.__doc__ or "").split())


REGISTERED: dict[str, Policy] = {}


def generator(*key: object) -> random.Random:
    """A random generator that depends on its key alone, on every machine and in every process."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))
