"""The right answer in another place or form: in reasoning that the reply never leaves, or written in another way."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envwright_worker.policies.answers import REASONING_TAGS, frame_of, is_json, raised, split_elements
from envwright_worker.policies.policy import SOME, Policy, ReferenceReply

_THOUGHT = re.compile(rf"<({'|'.join(REASONING_TAGS)})>.*?</\1>\s*", re.DOTALL)


@Policy("think-only", reply="an answer inside the reasoning", tasks=SOME, bound="below reference")
def think_only(reference: ReferenceReply) -> Iterator[str]:
    """The right answer only inside the format's tag of reasoning, or `<think>`, with nothing or a refusal after it. A
    warning if the format has no reasoning."""
    answer, thought, tag = _without_reasoning(reference)
    yield f"<{tag}>\n{thought or 'Let me see.'} So it may be\n{answer}\n</{tag}>\n"
    yield f"<{tag}>\n{answer}\n</{tag}>\nI would rather not say."


@Policy("unclosed-think", reply="an answer inside the reasoning", tasks=SOME, bound="below reference")
def unclosed_think(reference: ReferenceReply) -> Iterator[str]:
    """The right answer inside such a tag that is cut off. A warning if the format has no reasoning."""
    answer, thought, tag = _without_reasoning(reference)
    yield f"<{tag}>\n{thought or 'Let me see.'} So it may be\n{answer}"


def _without_reasoning(reference: ReferenceReply) -> tuple[str, str, str]:
    """The reply without its own reasoning, the text of that reasoning, and its tag."""
    found = list(_THOUGHT.finditer(reference.reply))
    thought = re.sub(r"</?\w+>\s*", "", "".join(match[0] for match in found)).strip()
    return _THOUGHT.sub("", reference.reply).strip(), thought, found[0][1] if found else "think"


@Policy("padded", reply="the right answer with line breaks around it", tasks=SOME, bound="reference", is_right=True)
def padded(reference: ReferenceReply) -> Iterator[str]:
    """The right answer between line breaks."""
    frame = frame_of(reference.payload)
    if frame is not None and frame.opening.startswith("<"):
        yield reference.payload.saying(f"\n{reference.payload.answer}\n")
    elif frame is None and not is_json(reference.reply):
        yield f"{reference.reply}\n"


@Policy("equivalent", reply="an answer that is equivalent by declaration", tasks=SOME, bound="reference", is_right=True)
def equivalent(reference: ReferenceReply) -> Iterator[str]:
    """The right answer, changed in what `[tool.envwright.answer]` declares not to matter: case, order, tolerance."""
    answer = reference.payload.answer
    if reference.case_sensitive is False and answer.swapcase() != answer:
        yield reference.saying(answer.swapcase())
    if reference.type == "set":
        elements, join = split_elements(answer)
        if len(elements) > 1:
            yield reference.payload.saying(join(elements[::-1]))
    if reference.type == "number" and reference.tolerance > 0 and re.fullmatch(r"[-+]?\d+(?:\.\d+)?", answer):
        yield reference.payload.saying(raised(answer, reference.tolerance / 2))
