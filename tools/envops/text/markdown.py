"""Escaping of text for GitHub's Markdown."""

from __future__ import annotations

import html
import re

from envops.text.visible_text import on_one_line, shortened, visible

LONGEST_PROSE = 4_000
LONGEST_LINE = 600


def inside_html(text: str) -> str:
    """Text inside an HTML element, without tags and mentions."""
    escaped = html.escape(on_one_line(shortened(text, LONGEST_LINE)))
    return escaped.replace("@", "@<!-- -->").replace("`", "&#96;")


def prose(text: str) -> str:
    """Text in a Markdown paragraph; only code between backticks keeps its meaning."""
    parts = re.split(r"(`[^`\n]+`)", on_one_line(shortened(text, LONGEST_PROSE)))
    return "".join(part if index % 2 else _escaped(part) for index, part in enumerate(parts))


def _escaped(text: str) -> str:
    escaped = re.sub(r"([\\`*_\[\]#|~$!])", r"\\\1", html.escape(text, quote=False))
    return escaped.replace("@", "@<!-- -->").replace("://", ":<!-- -->//").replace("www.", "www<!-- -->.")


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
