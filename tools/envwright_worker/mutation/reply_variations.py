"""Variations of a reply that a mutant of parsing code might read differently from the original."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envwright_worker.policies.answers import find_payload, near_misses

_FULLWIDTH = str.maketrans("0123456789", "０１２３４５６７８９")


def variations(reply: str, answer: str | None, fragments: Sequence[str]) -> Iterator[str]:
    """Replies made from one, each once, the simplest first; `fragments` are texts that the code searches for."""
    seen = {reply}
    for text in _all(reply, answer, fragments):
        if text not in seen:
            seen.add(text)
            yield text


def _all(reply: str, answer: str | None, fragments: Sequence[str]) -> Iterator[str]:
    payload = find_payload(reply, answer)
    yield ""
    yield from (payload.saying(text) for text in _written_otherwise(payload.answer))
    yield from _around(reply)
    for fragment in fragments:
        yield from _with_fragment(reply, fragment)
        yield payload.saying(f"{payload.answer}{fragment}")
        yield payload.saying(f"{fragment}{payload.answer}")
    yield from (payload.saying(text) for text in near_misses(payload.answer))


def _around(reply: str) -> Iterator[str]:
    yield from (f" {reply}", f"{reply} ", f"\n{reply}\n\n", f"So: {reply}", f"{reply} That is all.", f"{reply}\nDone.")
    yield from (reply.upper(), reply.lower(), reply[:-1], reply[1:], f"{reply}{reply}", f"{reply}\n{reply}")
    yield from (f"<think>Hm.</think>{reply}", f"<think>{reply}</think>", f"<think>{reply}", f"{reply}</think>")
    yield f"<think>{reply}</think>\n{reply}"
    yield f"{reply}<think>Hm.</think>{reply}"
    yield f"<think>Hm.</think>{reply}<think>Again.</think>{reply}"


def _with_fragment(reply: str, fragment: str) -> Iterator[str]:
    yield fragment
    yield f"{fragment}{reply}"
    yield f"{reply}{fragment}"
    yield f"{fragment} {reply}"
    yield f"{reply}\n{fragment}"
    if fragment in reply:
        yield reply.replace(fragment, "", 1)
        yield reply.replace(fragment, fragment * 2, 1)
        yield reply.replace(fragment, f" {fragment} ", 1)
        yield reply.replace(fragment, fragment.upper(), 1)


def _written_otherwise(answer: str) -> Iterator[str]:
    """The answer in other forms, some right and some wrong."""
    yield from ("", " ", f" {answer} ", f"\n{answer}\n", answer.upper(), answer.lower(), answer.title(), answer[:-1])
    yield from (answer[1:], answer[::-1], f"{answer}{answer}", f"{answer} {answer}", f"{answer} or {answer}")
    yield from (f"{answer}.", f"{answer},", f"{answer}x", f"x{answer}", f"not {answer}", f"({answer})", f'"{answer}"')
    lines = answer.split("\n")
    if len(lines) > 1:
        yield from ("\n\n".join(lines), "\n".join(lines[::-1]), "\n".join(lines[:-1]), " \n ".join(lines), lines[0])
    yield from _numbers(answer)


def _numbers(answer: str) -> Iterator[str]:
    match = re.search(r"\d+(?:,\d{3})*", answer)
    if match is None:
        return
    digits = match[0].replace(",", "")
    whole = digits.lstrip("0") or "0"
    forms = [f"{int(digits):,}", str(int(digits) + 1), str(int(digits) - 1), f"{digits}.0", f"{digits}.", f"{digits}.5"]
    forms += [digits[:-3] + "," + digits[-3:], f"+{digits}", f"-{digits}", f"−{digits}", f"${digits}", f"{digits}$"]
    forms += [f"-${digits}", f"$-{digits}", f"$${digits}", f"+-{digits}", f"{digits}%", f"{digits}e0", f"{digits}0"]
    forms += [digits.translate(_FULLWIDTH), f"{digits[:1]} {digits[1:]}", f"{digits[:1]},{digits[1:]}", digits[-1:]]
    if len(whole) > 3:
        forms += [f"{whole[:-3].zfill(width)},{whole[-3:]}" for width in (0, 2, 3, 4)]
    forms += [whole.zfill(width) for width in (3, 4, 9, 10, 17, 18, 19, 20, 40)]
    forms += [f"{digits}.{'0' * width}" for width in (2, 8, 9, 10, 11, 40)]
    for groups in (1, 2, 3, 4, 5, 6, 7, 8):
        grouped = f"{int(whole):,}"
        padding = groups - grouped.count(",")
        if padding > 0:
            head, _, rest = grouped.partition(",")
            forms.append(",".join(["0", *["000"] * (padding - 1), head.zfill(3), *([rest] if rest else [])]))
    for separator in (" ", "\u00a0", "\u2009", "\u202f", "_", "."):
        forms.append(f"{int(whole):,}".replace(",", separator))
    for form in forms:
        yield answer[: match.start()] + form + answer[match.end() :]
