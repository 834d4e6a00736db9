"""Where the answer stands in a reply, of what type it is, and what is nearly it but wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

JUNK = "§§§"
"""Stands for an answer in the right format: shares no character with any real one."""

_ELEMENT = re.compile(r"<([A-Za-z_][\w-]*)>([^<]*)</\1>")
_REASONING_TAGS = {"think", "thinking", "reasoning", "scratchpad", "thought", "analysis"}
_NUMBER = re.compile(r"[-+]?[$€£]?\d[\d,_ ]*(?:\.\d+)?(?:[eE][-+]?\d+)?\s?%?")
_BOOLEANS = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
_ANSWER_FIELDS = ("answer", "target", "label", "solution", "gold", "expected", "reference", "ground_truth")


@dataclass(frozen=True)
class Payload:
    """A reply cut in three: what stands before the answer, the answer, what stands after it."""

    before: str
    answer: str
    after: str

    def saying(self, answer: str) -> str:
        """The same reply with another answer."""
        return f"{self.before}{answer}{self.after}"


def find_payload(reply: str, answer: str | None = None) -> Payload:
    """The part of a reply that carries the answer, by the marks that usually frame it.

    In order: the last XML element that is not reasoning, `\\boxed{}`, `####`, a field of a
    JSON object, the known answer itself, and else all of the reply.
    """
    for find in (_in_element, _in_box, _behind_hashes, _in_json_field):
        payload = find(reply)
        if payload is not None:
            return payload
    if answer and answer in reply:
        start = reply.rindex(answer)
        return Payload(reply[:start], answer, reply[start + len(answer) :])
    text = reply.strip()
    start = reply.index(text) if text else 0
    return Payload(reply[:start], text, reply[start + len(text) :])


def _in_element(reply: str) -> Payload | None:
    found = [match for match in _ELEMENT.finditer(reply) if match[1].lower() not in _REASONING_TAGS]
    return _cut(reply, *found[-1].span(2)) if found else None


def _in_box(reply: str) -> Payload | None:
    start = reply.rfind("\\boxed{")
    if start < 0:
        return None
    start += len("\\boxed{")
    depth = 1
    for end in range(start, len(reply)):
        depth += {"{": 1, "}": -1}.get(reply[end], 0)
        if depth == 0:
            return _cut(reply, start, end)
    return None


def _behind_hashes(reply: str) -> Payload | None:
    found = list(re.finditer(r"^#### *(.*?)[ \t]*$", reply, re.MULTILINE))
    return _cut(reply, *found[-1].span(1)) if found else None


def _in_json_field(reply: str) -> Payload | None:
    try:
        value = json.loads(reply)
    except ValueError:
        return None
    if not isinstance(value, dict) or not value:
        return None
    name = next((field for field in _ANSWER_FIELDS if field in value), list(value)[-1])
    text = json.dumps(value[name], ensure_ascii=False)
    start = reply.rfind(text)
    if start < 0:
        return None
    inner = 1 if isinstance(value[name], str) else 0
    return _cut(reply, start + inner, start + len(text) - inner)


def _cut(reply: str, start: int, end: int) -> Payload:
    inner = reply[start:end]
    text = inner.strip()
    start += inner.index(text) if text else 0
    return Payload(reply[:start], text, reply[start + len(text) :])


def answer_of(data: dict[str, object]) -> str | None:
    """The task's own answer as text, from the field that usually holds it."""
    for name in _ANSWER_FIELDS:
        value = data.get(name)
        if value is None or value == "":
            continue
        if isinstance(value, str):
            return value.rsplit("####", 1)[-1].strip()
        return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)
    return None


def detect_type(answer: str) -> str:
    """What an answer looks like: number, boolean, choice, json, list or text."""
    text = answer.strip()
    if _NUMBER.fullmatch(text):
        return "number"
    if text.lower() in _BOOLEANS:
        return "boolean"
    if re.fullmatch(r"\(?[A-H]\)?\.?", text):
        return "choice"
    if text[:1] in "{[":
        try:
            json.loads(text)
        except ValueError:
            pass
        else:
            return "json"
    if len(_elements(text)[0]) > 1:
        return "list"
    return "text"


def near_misses(answer: str, declared_type: str | None = None, tolerance: float = 0.0) -> Iterator[str]:
    """Answers of the same type that are wrong, the nearest first.

    A declared type wins over the detected one: the order of a `set` is never what makes a
    near miss, and `none` has none.
    """
    seen = {answer.strip().lower()}
    for text in _wrong(answer, declared_type or detect_type(answer), tolerance):
        if text.strip().lower() not in seen:
            seen.add(text.strip().lower())
            yield text


def _wrong(answer: str, type: str, tolerance: float) -> Iterator[str]:
    match type:
        case "none":
            return iter(())
        case "number":
            return _numbers(answer, tolerance)
        case "boolean":
            return _flipped(answer)
        case "choice":
            return _other_choices(answer)
        case "list" | "set":
            return _lists(answer, ordered=type == "list")
        case "json":
            return _json_values(answer)
        case _:
            return _edited(answer)


def _numbers(answer: str, tolerance: float) -> Iterator[str]:
    match = re.search(r"[-+]?\d[\d,_]*(?:\.\d+)?", answer)
    if match is None:
        yield from _edited(answer)
        return
    digits = match[0].replace(",", "").replace("_", "")
    decimals = len(digits.partition(".")[2])
    value = float(digits)
    step = max(1.0, 3 * tolerance)

    def saying(number: float) -> str:
        return answer[: match.start()] + f"{number:.{decimals}f}" + answer[match.end() :]

    if abs(value) > 2**53:  # beyond exact floats: change the last digit only
        yield answer[: match.end() - 1] + str((int(answer[match.end() - 1]) + 1) % 10) + answer[match.end() :]
        return
    yield saying(value + step)
    yield saying(value - step)
    if abs(value) > tolerance:
        yield saying(-value)
        yield saying(value * 10)
    swapped = _swap_digits(digits)
    if swapped is not None and abs(float(swapped) - value) > tolerance:
        yield saying(float(swapped))


def _swap_digits(digits: str) -> str | None:
    for index in range(len(digits) - 1):
        left, right = digits[index], digits[index + 1]
        if left.isdigit() and right.isdigit() and left != right and not (index == 0 and right == "0"):
            return digits[:index] + right + left + digits[index + 2 :]
    return None


def _flipped(answer: str) -> Iterator[str]:
    other = _BOOLEANS.get(answer.strip().lower())
    if other is None:
        yield from _edited(answer)
    else:
        yield other.capitalize() if answer.strip()[:1].isupper() else other


def _other_choices(answer: str) -> Iterator[str]:
    match = re.search(r"[A-Za-z]", answer)
    if match is None:
        yield from _edited(answer)
        return
    for letter in "ABCD" if match[0].isupper() else "abcd":
        yield answer[: match.start()] + letter + answer[match.end() :]


def _elements(text: str) -> tuple[list[str], str]:
    for separator in ("\n", ", ", ",", "; ", ";"):
        parts = [part for part in text.split(separator) if part.strip()]
        if len(parts) > 1:
            return parts, separator
    return [text], ""


def _lists(answer: str, *, ordered: bool) -> Iterator[str]:
    if answer.strip()[:1] == "[":
        yield from _json_values(answer, ordered=ordered)
        return
    parts, separator = _elements(answer)
    if len(parts) == 1:
        yield from _edited(answer)
        return
    yield separator.join(parts[:-1])
    if ordered and parts[0].strip() != parts[1].strip():
        yield separator.join([parts[1], parts[0], *parts[2:]])
    for edited in _edited(parts[0]):
        yield separator.join([edited, *parts[1:]])


def _json_values(answer: str, *, ordered: bool = True) -> Iterator[str]:
    try:
        value = json.loads(answer)
    except ValueError:
        yield from _edited(answer)
        return
    if isinstance(value, list) and value:
        yield json.dumps(value[:-1], ensure_ascii=False)
        if ordered and len(value) > 1 and value[0] != value[1]:
            yield json.dumps([value[1], value[0], *value[2:]], ensure_ascii=False)
    elif isinstance(value, dict) and value:
        name = list(value)[-1]
        yield json.dumps({key: item for key, item in value.items() if key != name}, ensure_ascii=False)
        wrong = next(near_misses(json.dumps(value[name], ensure_ascii=False)), None)
        if wrong is not None:
            yield json.dumps(value | {name: wrong}, ensure_ascii=False)
    else:
        yield from near_misses(json.dumps(value, ensure_ascii=False).strip('"'))


def _edited(answer: str) -> Iterator[str]:
    letters = [index for index, character in enumerate(answer) if character.isalnum()]
    if not letters:
        return
    middle = letters[len(letters) // 2]
    other = "x" if answer[middle].lower() != "x" else "y"
    yield answer[:middle] + other + answer[middle + 1 :]
    if len(letters) > 3:
        yield answer[:middle] + answer[middle + 1 :]


def junk_in_place_of(payload: Payload) -> str:
    """The format of a reply without its contents: reasoning and answer are junk."""

    def fill(match: re.Match[str]) -> str:
        return f"<{match[1]}>{JUNK}</{match[1]}>"

    before = _ELEMENT.sub(fill, payload.before)
    return replace(payload, before=before).saying(JUNK)
