"""`nox -s pages`: documentation and catalogue as one site, which pages.yml publishes.

    python -m docs_site              in reports/site/
    python -m docs_site --out public/
    python -m docs_site --private    with environments that are PRIVATE on the Hub

Fails on a link without a target, on a page outside of the navigation, and on what is loaded from another host.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from envwright.declarations.registry import load_registry
from envwright.files.atomic_write import write_whole
from envwright.reports.documentation import documentation_address
from envwright.reports.site.build import NotOurs, emptied

from docs_site.built_pages import problems
from docs_site.staged_pages import CATALOGUE, CONFIG, NotInNavigation, stage

ROOT = Path(__file__).parents[2]
MOST_PROBLEMS = 30


def main(arguments: list[str] | None = None) -> int:
    """Build the site, and return 1 if it has problems."""
    parser = argparse.ArgumentParser(
        prog="nox -s pages --", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "site", help="folder (default: reports/site)")
    parser.add_argument("--private", action="store_true", help="also show environments that are PRIVATE on the Hub")
    options = parser.parse_args(arguments)
    hidden = frozenset() if options.private else load_registry(ROOT).private
    try:
        emptied(options.out)
        build_documentation(ROOT, options.out, hidden)
    except (NotOurs, NotInNavigation, NotBuilt) as error:
        print(error, file=sys.stderr)
        return 1
    catalogue = [sys.executable, "-m", "envwright", "site", "--root", str(ROOT), "--out", str(options.out / CATALOGUE)]
    code = subprocess.run([*catalogue, *["--private"] * options.private], check=False).returncode
    link_parts(options.out)
    found = list(problems(options.out, served=urlsplit(documentation_address()).path, without=CATALOGUE))
    for problem in found[:MOST_PROBLEMS]:
        print(problem, file=sys.stderr)
    print(f"{sum(1 for _ in options.out.rglob('*.html'))} pages in {options.out}, {len(found)} problems")
    return 1 if found else code


class NotBuilt(Exception):
    """The generator refused the pages: its message names page and line."""


def build_documentation(root: Path, out: Path, hidden: frozenset[str]) -> None:
    """Write the documentation of a checkout into a folder; links to `hidden` environments show their code.

    Raises `NotBuilt` or `NotInNavigation`.
    """
    with tempfile.TemporaryDirectory(prefix="envwright-pages-") as made:
        stage(root, Path(made), hidden)
        shutil.copytree(generated(Path(made)), out, dirs_exist_ok=True)


def generated(staged: Path) -> Path:
    """The folder with the pages of staged Markdown. Raises `NotBuilt`."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(staged / CONFIG)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = re.sub(r"\x1b\[[\d;]*m", "", f"{done.stdout}{done.stderr}")
        raise NotBuilt(said.partition("Traceback")[0].rstrip())
    return staged / "site"


def link_parts(site: Path) -> None:
    """Make links between documentation and catalogue relative, so that they hold on every host and on disk."""
    linked = re.compile(rf'(<a\b[^>]*\shref="){re.escape(documentation_address())}')
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        text = page.read_text(encoding="utf-8")
        write_whole(page, linked.sub(rf"\g<1>{up}", text))


if __name__ == "__main__":
    sys.exit(main())
