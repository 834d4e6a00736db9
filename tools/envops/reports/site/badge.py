"""Badges as SVG files, which a README can show without another service."""

from __future__ import annotations

from markupsafe import Markup, escape

COLOURS = {"pass": "#17693a", "fail": "#a8201a", "inconclusive": "#7a4f00", "error": "#702a80"}
OTHER = "#4a4f57"
_NARROW = frozenset("fijlrt.,:;!|'()[] 1I")
CHARACTER, NARROW_CHARACTER, ROOM = 7.0, 4.4, 12.0
"""Widths in pixels at 11 px: estimates, so the text is set to the reserved width."""


def badge(label: str, value: str, colour: str = OTHER) -> Markup:
    """A badge as SVG, with its text as its name for screen readers."""
    left, right = _width(label), _width(value)
    total = left + right
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" aria-label="{label}: {value}">'
        "<title>{label}: {value}</title>"
        '<rect width="{total}" height="20" rx="4" fill="#2b2f36"/>'
        '<path fill="{colour}" d="M{left} 0h{inner}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4H{left}z"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        '<text x="{first}" y="14" textLength="{one}" lengthAdjust="spacingAndGlyphs">{label}</text>'
        '<text x="{second}" y="14" textLength="{two}" lengthAdjust="spacingAndGlyphs">{value}</text></g></svg>'
    ).format(
        label=label,
        value=value,
        colour=escape(colour),
        total=round(total, 1),
        left=round(left, 1),
        inner=round(right - 4, 1),
        first=round(left / 2, 1),
        second=round(left + right / 2, 1),
        one=round(left - ROOM, 1),
        two=round(right - ROOM, 1),
    )


def _width(text: str) -> float:
    return ROOM + sum(NARROW_CHARACTER if letter in _NARROW else CHARACTER for letter in text)
