"""Wrong replies that are made from the reference reply, each wrong in one way."""

from __future__ import annotations

from collections.abc import Iterator

from envwright_worker.policies.answers import JUNK, frame_of, hollow, junk_in_place_of
from envwright_worker.policies.policy import FEW, SOME, Policy, ReferenceReply

LONG = 200_000
"""Characters of a long reply."""
DIGITS = 6_000
"""Python's `int` refuses more than 4,300."""
_LOOK_ALIKES = str.maketrans(
    "aceiopxyABCEHIKMOPTXY0123568",
    "асеіорхуАВСЕНІКМОРТХУOlZЭSбB",  # Cyrillic, and letters in place of digits
)
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@Policy(
    "near-miss",
    reply="a wrong answer in the right format",
    bound="below reference",
    needs_answer=True,
    is_repeated=True,
)
def near_miss(reference: ReferenceReply) -> Iterator[str]:
    """A number off by one, with another sign, ten times as large, slightly off, or with two digits swapped; another of
    the offered choices; the other truth value; a list with an element removed, added or swapped; a text with an edit
    inside, at its ends, or of two letters."""
    yield from (reference.payload.saying(answer) for answer in reference.wrong)


@Policy("format-only", reply="the right format around junk", bound="form", is_repeated=True)
def format_only(reference: ReferenceReply) -> Iterator[str]:
    """The format around junk, or JSON without contents."""
    yield junk_in_place_of(reference.payload)
    yield from hollow(reference.reply)


@Policy("hedge", reply="a list of candidate answers", bound="below reference", needs_answer=True, is_repeated=True)
def hedge(reference: ReferenceReply) -> Iterator[str]:
    """Several answers in one place, the right one among them."""
    if reference.wrong:
        candidates = [*reference.wrong[:2], reference.payload.answer, *reference.wrong[2:4]]
        yield reference.payload.saying(" or ".join(candidates))


@Policy("look-alike", reply="an answer that only looks right", tasks=SOME, bound="below reference")
def look_alike(reference: ReferenceReply) -> Iterator[str]:
    """Letters of another script, letters for digits, a superscript."""
    answer = reference.payload.answer
    seen = answer.translate(_LOOK_ALIKES)
    if seen != answer:
        yield reference.saying(seen)
    if answer[-1:].isdigit() and len(answer) > 1:
        yield reference.saying(answer[:-1] + answer[-1].translate(_SUPERSCRIPTS))


@Policy("negated", reply="a denial of the right answer", tasks=SOME, bound="below reference", needs_answer=True)
def negated(reference: ReferenceReply) -> Iterator[str]:
    """The words "not 42" in the answer's place; "The answer is not 42." in plain words."""
    if reference.type == "none" or not reference.payload.answer:
        return
    yield reference.saying(f"not {reference.payload.answer}")
    yield f"The answer is not {reference.payload.answer}."


@Policy("wrong-first", reply="a wrong answer, then the right one", tasks=SOME, bound="reference", needs_answer=True)
def wrong_first(reference: ReferenceReply) -> Iterator[str]:
    """A wrong answer, then the right one, each in the format."""
    if reference.wrong:
        yield from _with_two_statements(reference, reference.wrong[0], reference.payload.answer)


@Policy(
    "wrong-last",
    reply="the right answer, then a wrong one",
    tasks=SOME,
    bound="below reference",
    needs_answer=True,
    is_repeated=True,
)
def wrong_last(reference: ReferenceReply) -> Iterator[str]:
    """The right answer, then a wrong one, each in the format."""
    if reference.wrong:
        yield from _with_two_statements(reference, reference.payload.answer, reference.wrong[0])


def _with_two_statements(reference: ReferenceReply, first: str, last: str) -> Iterator[str]:
    frame = frame_of(reference.payload)
    if frame is not None:
        statements = [f"{frame.opening}{answer}{frame.closing}" for answer in (first, last)]
        yield frame.head + "\n".join(statements) + frame.tail


@Policy("long-junk", reply="a very long reply of junk", tasks=FEW, bound="form")
def long_junk(reference: ReferenceReply) -> Iterator[str]:
    """200,000 characters of junk, alone and in the answer's place, or a number of 6,000 digits."""
    junk = f"{JUNK} " * (LONG // (len(JUNK) + 1))
    yield junk
    yield junk_in_place_of(reference.payload, junk.strip())
    if reference.type == "number":
        yield reference.payload.saying("9" * DIGITS)
