"""The reference reply itself, and replies that ignore the task."""

from __future__ import annotations

from collections.abc import Iterator

from envwright_worker.policies.policy import Policy, ReferenceReply


@Policy("oracle", reply="the reference reply", tasks=None, bound="maximum", is_right=True, is_repeated=True)
def oracle(reference: ReferenceReply) -> Iterator[str]:
    """The reference reply: from `tests/oracle.py`, or the task's answer in the format that the prompt requests."""
    yield reference.reply


@Policy("nop", reply="an empty reply", bound="floor", needs_reference=False, is_repeated=True)
def nop(_reference: ReferenceReply) -> Iterator[str]:
    """Nothing."""
    yield ""


@Policy("echo", reply="the repeated prompt", bound="below reference", needs_reference=False, is_repeated=True)
def echo(reference: ReferenceReply) -> Iterator[str]:
    """The prompt."""
    yield reference.asked
