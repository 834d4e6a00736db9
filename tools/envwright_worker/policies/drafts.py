"""The right answer inside reasoning that the reply never leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envwright_worker.policies.policy import SOME, ReferenceReply, policy

_THOUGHT = re.compile(r"<(think|thinking|reasoning|scratchpad|thought|analysis)>.*?</\1>\s*", re.DOTALL)


@policy("think-only", reply="an answer inside the reasoning", tasks=SOME, bound="below reference")
def think_only(reference: ReferenceReply) -> Iterator[str]:
    """The right answer only inside `<think>`, with nothing or a refusal after it. A warning if the format has no
    reasoning."""
    answer, thought = _without_reasoning(reference)
    yield f"<think>\n{thought or 'Let me see.'} So it may be\n{answer}\n</think>\n"
    yield f"<think>\n{answer}\n</think>\nI would rather not say."


@policy("unclosed-think", reply="an answer inside the reasoning", tasks=SOME, bound="below reference")
def unclosed_think(reference: ReferenceReply) -> Iterator[str]:
    """The right answer inside a `<think>` that is cut off. A warning if the format has no reasoning."""
    answer, thought = _without_reasoning(reference)
    yield f"<think>\n{thought or 'Let me see.'} So it may be\n{answer}"


def _without_reasoning(reference: ReferenceReply) -> tuple[str, str]:
    """The reply without its own reasoning, and the text of that reasoning."""
    thought = "".join(match[0] for match in _THOUGHT.finditer(reference.reply))
    return _THOUGHT.sub("", reference.reply).strip(), re.sub(r"</?\w+>\s*", "", thought).strip()
