"""Escaping of hostile text for terminals and reports. A reply can contain terminal escapes, characters that change the
reading direction, half a surrogate pair, or 200 kB of text.
"""

from __future__ import annotations

import codecs
import re

_INVISIBLE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but not tab and newline
    "\u00ad\u034f\u061c\u070f\u115f\u1160\u180e\u3164\uffa0"  # invisible letters and marks
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, separators, direction
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff0-\ufffb\ufffe\uffff"  # half pairs, never characters
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "]"
)
_COMMAND_START = re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE)
_PLAIN_SIGNS = str.maketrans(
    {"✓": "+", "✗": "x", "│": "|", "·": "-", "–": "-", "─": "-", "━": "=", "×": "*", "…": "...", "→": "->"}
)


def visible(text: str) -> str:
    """The text with invisible and active characters as escapes."""
    if text.isascii() and text.isprintable():  # nearly every text, and quickly checked
        return text
    return _INVISIBLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def on_one_line(text: str) -> str:
    """The visible text without line breaks or runs of whitespace."""
    return " ".join(visible(text).split())


def shortened(text: str, characters: int, lines: int | None = None) -> str:
    """The text, or its beginning and end with the number of omitted characters."""
    total = len(text)
    rows = text.split("\n") if lines is not None else []
    if lines is not None and len(rows) > lines:
        head = lines - lines // 3
        cut = f"[… {len(rows) - lines:,} of {len(rows):,} lines left out, {total:,} characters in total …]"
        text = "\n".join([*rows[:head], cut, *rows[len(rows) - lines // 3 :]])
    tail = characters // 4
    cut = f"[… {total - characters:,} of {total:,} characters left out …]"
    if len(text) <= characters + len(cut):  # the mark would be longer than what it stands for
        return text
    return f"{text[: characters - tail]}\n{cut}\n{text[-tail:]}"


def without_workflow_commands(text: str) -> str:
    """The text without commands for GitHub's runner, which reads logs."""
    # JSON, in which a command can only stand inside a string, stays JSON
    return _COMMAND_START.sub(r"\1\\x3a", text).replace("##[", r"##\u005b")


FITTING = "envwright.fitting"
"""The error handler of a stream whose encoding lacks signs: it writes plainer ones, or escapes."""


def _fit(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    plain = error.object[error.start : error.end].translate(_PLAIN_SIGNS)
    return plain.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(FITTING, _fit)
