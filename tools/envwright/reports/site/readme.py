"""A README as part of a page: text, tables, code and links, without active content."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

from envwright.text.visible_text import shortened, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

LONGEST = 200_000
TAGS = {
    *("p", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "hr", "br"),
    *("em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td", "div"),
}
OWN_ATTRIBUTES = {"a": {"href"}, "div": {"class", "tabindex", "role", "aria-label"}, "pre": {"tabindex"}}
_ABSOLUTE = re.compile(r"https?://", re.IGNORECASE)


def readme_html(text: str) -> Markup:
    """The README as HTML, its headings one level lower because the page has the first.

    Raw HTML in it is shown as text. A picture becomes its description, a link into the repository its text, because the
    site has neither target. The resulting HTML is sanitized again.
    """
    rendered = _markdown().render(visible(shortened(text, LONGEST)))
    rendered = rendered.replace("<pre>", '<pre tabindex="0">')
    rendered = rendered.replace("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>')
    rendered = rendered.replace("</table>", "</table></div>")
    cleaned = nh3.clean(
        rendered, tags=TAGS, attributes=OWN_ATTRIBUTES, url_schemes={"http", "https"}, link_rel="noreferrer nofollow"
    )
    return Markup(cleaned)  # cleaned one line above


@cache
def _markdown() -> MarkdownIt:
    made = MarkdownIt("js-default", {"html": False, "linkify": False})
    made.core.ruler.push("for_a_page", lambda state: _adapt(state.tokens))
    return made


def _adapt(tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
        if token.type == "inline" and token.children:
            token.children = _adapted(token.children)


def _adapted(children: Sequence[Token]) -> list[Token]:
    """Replace pictures by their descriptions, and links without a target by their text."""
    kept: list[Token] = []
    leading: list[bool] = []
    for child in children:
        if child.type == "link_open":
            leading.append(bool(_ABSOLUTE.match(str(child.attrGet("href") or ""))))
            if not leading[-1]:
                continue
        if child.type == "link_close" and not leading.pop():
            continue
        if child.type == "image":
            child.type, child.tag, child.attrs = "text", "", {}
        kept.append(child)
    return kept
