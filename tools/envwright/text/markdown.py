"""Escaping of text for GitHub's Markdown."""

from __future__ import annotations

import html
import re

from envwright.text.visible_text import on_one_line, shortened, visible

LONGEST_PROSE = 4_000
LONGEST_LINE = 600
_LINKED = re.compile(r"@|#(?=\d)|\bGH-(?=\d)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)
_BLOCK_START = re.compile(r"^(\d*)([-+=.)])(?= |$|[-=])")
"""What begins a list or a heading at the start of a line."""


def inside_html(text: str) -> str:
    """Text inside an HTML element, without tags and mentions."""
    escaped = html.escape(on_one_line(shortened(text, LONGEST_LINE)))
    return _unlinked(escaped).replace("`", "&#96;")


def prose(text: str) -> str:
    """Text in a Markdown paragraph; only code between backticks keeps its meaning."""
    parts = re.split(r"(`[^`\n]+`)", on_one_line(shortened(text, LONGEST_PROSE)))
    shown = "".join(part if index % 2 else _escaped(part) for index, part in enumerate(parts))
    return _BLOCK_START.sub(r"\1\\\2", shown)


def _escaped(text: str) -> str:
    return _unlinked(re.sub(r"([\\`*_\[\]#|~$!])", r"\\\1", html.escape(text, quote=False)))


def _unlinked(text: str) -> str:
    """Text without what GitHub makes a link of: mentions, addresses, numbers of issues."""
    return _LINKED.sub(r"\g<0><!-- -->", text)


def code_span(text: str) -> str:
    """Text as an inline code span, however many backticks it holds."""
    shown = on_one_line(shortened(text, LONGEST_LINE)) or " "
    fence = "`" * (_longest_run(shown) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def table_cell(text: str) -> str:
    """Text in a table cell, where a bar ends the cell even inside a code span."""
    return code_span(text.replace("|", r"\x7c"))


def prose_cell(text: str) -> str:
    """Prose in a table cell, where a bar ends the cell even inside a code span."""
    return re.sub(r"(?<!\\)\|", r"\\|", prose(text))


def fenced(text: str) -> str:
    """Text as a code block with a fence longer than any run of backticks in the text."""
    shown = visible(text)
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}\n"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
