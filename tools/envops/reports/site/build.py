"""The site's files: pages, badges, and the style and scripts that they share."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envops.files.atomic_write import write_whole
from envops.reports.html.compact import Beside, page_environment
from envops.reports.html.embedding import embedded
from envops.reports.html.page import LIBRARIES, VIEWS, joined, render_page, templates
from envops.reports.html.size_budget import page_run
from envops.reports.run_report import run_file
from envops.reports.site.badge import COLOURS, OTHER, badge
from envops.reports.site.readme import readme_html
from envops.reports.summary import score_text
from envops.rules.rewards.mutation import GOOD_SCORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from envops.reports.run_report import RunReport
    from envops.reports.site.catalogue import Catalogue, ListedEnvironment

STYLES = ("base.css", "report.css", "details.css")
LONGEST = 20_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
MARKER = "envops-site"
"""A file that marks a folder as a site written by envops, which may be rewritten."""


class NotOurs(Exception):
    """The folder to write holds something else."""


def build_site(catalogue: Catalogue, folder: Path) -> int:
    """Write the site into a folder, anew; the answer is how many pages it has.

    Raises `NotOurs` when the folder holds something that is no site of ours.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise NotOurs(f"{folder} holds something that is no site of ours; name another folder, or empty it")
    shutil.rmtree(folder, ignore_errors=True)
    pages = 0
    for path, text in site_files(catalogue):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / path, text)
        pages += path.endswith(".html")
    return pages


def site_files(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """Every file of the site with its text."""
    yield MARKER, "Written by `envops site`; everything here is written anew each time.\n"
    yield ".nojekyll", ""
    yield "assets/site.css", joined("assets", STYLES) + _own("site.css")
    yield "assets/library.js", joined("vendor", LIBRARIES)
    yield "assets/views.js", joined("assets", VIEWS) + _own("site.js")
    cards, runs = [_card(one) for one in catalogue.listings], [(run, run_page(run)) for run in catalogue.runs]
    yield "index.html", _page("index.html.j2", "", catalogue=catalogue, shown=cards, runs=runs)
    diffs = {one["name"]: one for one in (catalogue.diff or {}).get("environments", [])}
    for listing in catalogue.listings:
        yield f"environments/{listing.name}/index.html", _environment(listing, diffs.get(listing.name))
        yield f"badges/{listing.name}.svg", f"{_badges(listing)[0]}\n"
    for run in catalogue.runs:
        yield f"runs/{run_page(run)}/index.html", _run(run)
    if catalogue.report is not None:
        yield "report.html", render_page(dict(catalogue.report), dict(catalogue.diff or {}) or None, catalogue.runs)


def run_page(run: RunReport) -> str:
    """The name of a run's folder."""
    return run_file(run.name).removesuffix(".json")


def _environment(listing: ListedEnvironment, diff: dict[str, Any] | None) -> str:
    data = None if listing.proven is None else embedded(page_environment(listing.proven, Beside(diff), LONGEST))
    readme = readme_html(listing.readme)
    return _page("environment.html.j2", "../../", one=listing, readme=readme, data=data, badges=_badges(listing))


def _run(run: RunReport) -> str:
    return _page("run.html.j2", "../../", run=run, data=embedded(page_run(run)))


def _card(listing: ListedEnvironment) -> dict[str, Any]:
    words = [listing.name, listing.description, *listing.tags, listing.generation or ""]
    distributions = (listing.proven or {}).get("distributions", [])
    return {
        "one": listing,
        "searched": " ".join(words).lower()[:1_000],
        "means": [{"policy": one["policy"], **one["mean"]} for one in distributions if one["mean"]],
    }


def _badges(listing: ListedEnvironment) -> list[str]:
    verdict = listing.verdict
    said = verdict or ("not proven at this digest" if listing.stale else "not validated")
    shown = [badge("envops", said, COLOURS.get(verdict or "", OTHER)), badge("version", listing.version)]
    shown += [badge("verifiers", listing.generation)] if listing.generation else []
    noticed = mutation_badge((listing.proven or {}).get("mutation"))
    shown += [noticed] if verdict and noticed else []
    return [*shown, badge("visibility", listing.visibility.lower())]


def mutation_badge(mutation: Mapping[str, Any] | None) -> Markup | None:
    """How many mutants were noticed; `None` while those that are undecided leave open whether they are enough."""
    bounds = (mutation or {}).get("score_range")
    if not bounds or (bounds[0] >= GOOD_SCORE) != (bounds[1] >= GOOD_SCORE):
        return None
    return badge("mutants noticed", score_text(bounds))


def _page(template: str, up: str, **values: Any) -> str:
    return templates("envops.reports.site").get_template(template).render(policy=POLICY, up=up, **values)


def _own(name: str) -> str:
    return (files("envops.reports.site") / "assets" / name).read_text(encoding="utf-8")
