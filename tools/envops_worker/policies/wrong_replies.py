"""Whole replies that are wrong in one telling way each, made from a perfect one.

And the two that are right in another dress: `padded` and `equivalent`. What each of them may
earn is said by the rules, not here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from envops_worker.policies.answers import JUNK, Payload, split_elements

RIGHT = ("padded", "equivalent")
"""The policies that are not wrong."""
LONG = 200_000
"""Characters of a long reply."""
DIGITS = 6_000
"""Python's `int` refuses more than 4,300."""
_LOOK_ALIKES = str.maketrans(
    "aceiopxyABCEHIKMOPTXY0123568",
    "асеіорхуАВСЕНІКМОРТХУOlZЭSбB",  # Cyrillic, and letters in place of digits
)
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_THOUGHT = re.compile(r"<(think|thinking|reasoning|scratchpad|thought|analysis)>.*?</\1>\s*", re.DOTALL)
_FRAMES = (
    (re.compile(r"<([A-Za-z_][\w-]*)>\s*$"), re.compile(r"\s*</([A-Za-z_][\w-]*)>")),
    (re.compile(r"\\boxed\{\s*$"), re.compile(r"\s*\}")),
    (re.compile(r"#### *$"), re.compile(r"[ \t]*")),
)


@dataclass(frozen=True)
class Gold:
    """A perfect reply, taken apart, and what is nearly its answer."""

    reply: str
    payload: Payload
    wrong: tuple[str, ...]
    type: str
    tolerance: float = 0.0
    case_sensitive: bool | None = None

    def saying(self, answer: str) -> str:
        """The reply with another answer in its place, in quotes where JSON wants them."""
        bare_json = not self.payload.before.endswith('"') and _is_json(self.reply)
        return self.payload.saying(json.dumps(answer, ensure_ascii=False) if bare_json else answer)


class Frame(NamedTuple):
    """A reply around its final statement: `<answer>` and `</answer>`, `\\boxed{` and `}`, `####`."""

    head: str
    opening: str
    closing: str
    tail: str


def frame_of(payload: Payload) -> Frame | None:
    """How the answer is marked as the answer; `None` where nothing marks it."""
    for before, after in _FRAMES:
        opening, closing = before.search(payload.before), after.match(payload.after)
        if opening is not None and closing is not None:
            head, tail = payload.before[: opening.start()], payload.after[closing.end() :]
            return Frame(head, opening[0], closing[0], tail)
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return text.lstrip()[:1] in ("{", "[")


def _long_junk(gold: Gold) -> Iterator[str]:
    junk = f"{JUNK} " * (LONG // (len(JUNK) + 1))
    yield junk
    yield gold.payload.saying(junk.strip())
    if gold.type == "number":
        yield gold.payload.saying("9" * DIGITS)


def _look_alike(gold: Gold) -> Iterator[str]:
    answer = gold.payload.answer
    seen = answer.translate(_LOOK_ALIKES)
    if seen != answer:
        yield gold.saying(seen)
    if answer[-1:].isdigit() and len(answer) > 1:
        yield gold.saying(answer[:-1] + answer[-1].translate(_SUPERSCRIPTS))


def _unspoken(gold: Gold) -> tuple[str, str]:
    """The reply without its own reasoning, and what that reasoning was."""
    thought = "".join(match[0] for match in _THOUGHT.finditer(gold.reply))
    return _THOUGHT.sub("", gold.reply).strip(), re.sub(r"</?\w+>\s*", "", thought).strip()


def _unclosed_think(gold: Gold) -> Iterator[str]:
    said, thought = _unspoken(gold)
    yield f"<think>\n{thought or 'Let me see.'} So it may be\n{said}"


def _think_only(gold: Gold) -> Iterator[str]:
    said, thought = _unspoken(gold)
    yield f"<think>\n{thought or 'Let me see.'} So it may be\n{said}\n</think>\n"
    yield f"<think>\n{said}\n</think>\nI would rather not say."


def _with_two_statements(gold: Gold, first: str, last: str) -> Iterator[str]:
    frame = frame_of(gold.payload)
    if frame is not None:
        statements = [f"{frame.opening}{answer}{frame.closing}" for answer in (first, last)]
        yield frame.head + "\n".join(statements) + frame.tail


def _wrong_last(gold: Gold) -> Iterator[str]:
    if gold.wrong:
        yield from _with_two_statements(gold, gold.payload.answer, gold.wrong[0])


def _wrong_first(gold: Gold) -> Iterator[str]:
    if gold.wrong:
        yield from _with_two_statements(gold, gold.wrong[0], gold.payload.answer)


def _negated(gold: Gold) -> Iterator[str]:
    if gold.type == "none" or not gold.payload.answer:
        return
    yield gold.saying(f"not {gold.payload.answer}")
    yield f"The answer is not {gold.payload.answer}."


def _padded(gold: Gold) -> Iterator[str]:
    frame = frame_of(gold.payload)
    if frame is not None and frame.opening.startswith("<"):
        yield gold.payload.saying(f"\n{gold.payload.answer}\n")
    elif frame is None and not _is_json(gold.reply):
        yield f"{gold.reply}\n"


def _equivalent(gold: Gold) -> Iterator[str]:
    """The same answer by what `[tool.envops.answer]` declares not to matter."""
    answer = gold.payload.answer
    if gold.case_sensitive is False and answer.swapcase() != answer:
        yield gold.saying(answer.swapcase())
    if gold.type == "set":
        elements, join = split_elements(answer)
        if len(elements) > 1:
            yield gold.payload.saying(join(elements[::-1]))
    if gold.type == "number" and gold.tolerance > 0:
        number = re.fullmatch(r"[-+]?\d+(?:\.\d+)?", answer)
        if number is not None:
            yield gold.payload.saying(f"{float(answer) + gold.tolerance / 2:.10g}")


FORMS: Mapping[str, Callable[[Gold], Iterator[str]]] = {
    "long-junk": _long_junk,
    "look-alike": _look_alike,
    "unclosed-think": _unclosed_think,
    "think-only": _think_only,
    "wrong-last": _wrong_last,
    "wrong-first": _wrong_first,
    "negated": _negated,
    "padded": _padded,
    "equivalent": _equivalent,
}
