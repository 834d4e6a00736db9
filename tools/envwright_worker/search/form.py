"""The form of a reference reply: the marks around its answer, without anything specific to one task."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from envwright_worker.policies.answers import find_payload

FormKind = Literal["element", "box", "hashes", "json", "bare"]
_OPEN = re.compile(r"<([A-Za-z_][\w-]*)>\s*$")
_ELEMENT = re.compile(r"<([A-Za-z_][\w-]*)>[^<]*</\1>")
FILLER = "x"
"""Placeholder of reasoning: a form needs text there, but none of a task."""


@dataclass(frozen=True)
class AnswerForm:
    """The marks around an answer; the same on every task."""

    kind: FormKind
    before: str
    after: str
    lead: str = ""
    """Text in front of the answer's own marks, such as a reasoning element."""

    def saying(self, text: str) -> str:
        return f"{self.lead}{self.before}{self.quoted(text)}{self.after}"

    def marked(self, text: str) -> str:
        """The answer's own marks alone, which are repeated if several answers are given."""
        return f"{self.before}{self.quoted(text)}{self.after}"

    def quoted(self, text: str) -> str:
        return json.dumps(text)[1:-1] if self.kind == "json" and self.before.endswith('"') else text

    @property
    def explicit(self) -> bool:
        """Whether marks show which part of a reply is the answer."""
        return self.kind != "bare"


BARE = AnswerForm("bare", "", "")


def form_of(gold: str, answer: str | None = None) -> AnswerForm:
    """The form of a reference reply, in the order of `find_payload`."""
    payload = find_payload(gold, answer)
    if opened := _OPEN.search(payload.before):
        tag = opened[1]
        others = [name for name in _ELEMENT.findall(payload.before) if name != tag]
        lead = "".join(f"<{name}>{FILLER}</{name}>\n" for name in dict.fromkeys(others))
        return AnswerForm("element", f"<{tag}>", f"</{tag}>", lead)
    if payload.before.endswith("\\boxed{"):
        return AnswerForm("box", "\\boxed{", "}")
    if re.search(r"#### *$", payload.before):
        return AnswerForm("hashes", "#### ", "")
    if found := re.search(r'"([^"]+)":\s*("?)$', payload.before):
        return AnswerForm("json", f'{{"{found[1]}": {found[2]}', f"{found[2]}}}")
    return BARE
