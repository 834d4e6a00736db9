"""The right answer, written in another way that must not matter."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envwright_worker.policies.answers import frame_of, split_elements
from envwright_worker.policies.policy import SOME, ReferenceReply, is_json, policy


@policy("padded", reply="the right answer with line breaks around it", tasks=SOME, bound="reference", is_right=True)
def padded(reference: ReferenceReply) -> Iterator[str]:
    """The right answer between line breaks."""
    frame = frame_of(reference.payload)
    if frame is not None and frame.opening.startswith("<"):
        yield reference.payload.saying(f"\n{reference.payload.answer}\n")
    elif frame is None and not is_json(reference.reply):
        yield f"{reference.reply}\n"


@policy("equivalent", reply="an answer that is equivalent by declaration", tasks=SOME, bound="reference", is_right=True)
def equivalent(reference: ReferenceReply) -> Iterator[str]:
    """The right answer, changed in what `[tool.envwright.answer]` declares not to matter: case, order, tolerance."""
    answer = reference.payload.answer
    if reference.case_sensitive is False and answer.swapcase() != answer:
        yield reference.saying(answer.swapcase())
    if reference.type == "set":
        elements, join = split_elements(answer)
        if len(elements) > 1:
            yield reference.payload.saying(join(elements[::-1]))
    if reference.type == "number" and reference.tolerance > 0:
        number = re.fullmatch(r"[-+]?\d+(?:\.\d+)?", answer)
        if number is not None:
            yield reference.payload.saying(f"{float(answer) + reference.tolerance / 2:.10g}")
