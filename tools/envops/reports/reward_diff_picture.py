"""A reward diff as a small SVG picture: from the mean at the base to the mean here, a line for each policy."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from envops.facts.reward_numbers import number
from envops.reports.changed_rewards import EnvironmentRewards, PolicyRewards, changed_policies
from envops.text.visible_text import on_one_line, visible

PICTURE = "reward-diff.svg"
MOST_ROWS = 40
WIDTH, ROW, TOP = 720, 24, 44
AXIS = (300, 600)
"""The axis begins and ends at these pixels; names are left of it, numbers are right of it."""
LONGEST_NAME = 44
_STYLE = """\
text{font:12px system-ui,sans-serif;fill:#1d2127}.quiet{fill:#4a4f57}.line{stroke:#1d2127;stroke-width:2}
.axis{stroke:#9aa1ab}.base{fill:#fff;stroke:#1d2127;stroke-width:2}.here{fill:#1d2127}.back{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e8eaed}.quiet{fill:#b4bac2}.line{stroke:#e8eaed}.axis{stroke:#6b727b}
.base{fill:#16181c;stroke:#e8eaed}.here{fill:#e8eaed}.back{fill:#16181c}}"""


def render_picture(environments: Sequence[EnvironmentRewards]) -> str:
    """The picture as SVG without scripts; it has a line of text if no reward changed."""
    rows = changed_policies(environments)
    shown = rows[:MOST_ROWS]
    means = [mean for _, one in shown for mean in (one.mean_base, one.mean_head) if mean is not None]
    low, high = min([0.0, *means]), max([1.0, *means])
    title = f"Changed rewards: {len(rows)} sources" if rows else "No rewards changed"
    height = TOP + ROW * len(shown) + (ROW if len(rows) > len(shown) else 0)
    parts = [
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'role="img" aria-label="{title}"><title>{title}</title><style>{style}</style>'
            '<rect class="back" width="{width}" height="{height}"/><text x="8" y="18">{title}</text>'
        ).format(width=WIDTH, height=height, title=title, style=_STYLE)
    ]
    if shown:
        parts.append(_axis(low, high, height))
    parts += [_row(place, one, policy, low, high) for place, (one, policy) in enumerate(shown)]
    if len(rows) > len(shown):
        text = Markup('<text class="quiet" x="8" y="{y}">and {more} more, in reward-diff.json</text>')
        parts.append(text.format(y=height - 8, more=len(rows) - len(shown)))
    return "".join([*parts, "</svg>\n"])


def _axis(low: float, high: float, height: int) -> Markup:
    start, end = AXIS
    return Markup(
        '<text class="quiet" x="{start}" y="34" text-anchor="middle">{low}</text>'
        '<text class="quiet" x="{end}" y="34" text-anchor="middle">{high}</text>'
        '<text class="quiet" x="{right}" y="18" text-anchor="end">○ at the base, ● here</text>'
        '<path class="axis" d="M{start} 38V{height}M{end} 38V{height}"/>'
    ).format(start=start, end=end, low=number(low), high=number(high), right=WIDTH - 8, height=height)


def _row(place: int, one: EnvironmentRewards, policy: PolicyRewards, low: float, high: float) -> Markup:
    y = TOP + ROW * place + ROW // 2
    label = on_one_line(visible(f"{one.name}, {policy.policy}"))
    label = label if len(label) <= LONGEST_NAME else f"{label[: LONGEST_NAME - 1]}…"
    points = [None if mean is None else _place(mean, low, high) for mean in (policy.mean_base, policy.mean_head)]
    drawn = Markup()
    if points[0] is not None and points[1] is not None:
        drawn += Markup('<path class="line" d="M{} {}H{}"/>').format(points[0], y, points[1])
    for kind, x in zip(("base", "here"), points, strict=True):
        if x is not None:
            drawn += Markup('<circle class="{}" cx="{}" cy="{}" r="5"/>').format(kind, x, y)
    values = f"{number(policy.mean_base)} → {number(policy.mean_head)}"
    return Markup('<text x="8" y="{y}">{label}</text>{drawn}<text x="{x}" y="{y}">{values}</text>').format(
        y=y + 4, label=label, drawn=drawn, x=AXIS[1] + 16, values=values
    )


def _place(mean: float, low: float, high: float) -> float:
    start, end = AXIS
    return round(start + (end - start) * (mean - low) / (high - low), 1)
