"""Reports of runs that are over: look at them, put them together, make a site of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from envops.cli.arguments import Commands, command, printed, root

OPEN_EXAMPLES = """examples:
  envops report open                     show reports/validate.html in the browser
  envops report open --print             only say where it is
  envops report open --reports out/
"""
SITE_EXAMPLES = """examples:
  envops site                  the catalogue, in reports/site/
  envops site --out public/
"""
MERGE_EXAMPLES = """examples:
  envops report merge shards/                        every validate.json below a folder
  envops report merge one.json two.json three.json
  envops report merge shards/ --matrix shards.json   and nothing of the matrix may be missing
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    report = commands.add_parser("report", help="reports of runs that are over")
    kinds = report.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _open(kinds)
    _merge(kinds)
    _site(commands)


def _open(kinds: Commands[argparse.ArgumentParser]) -> None:
    opened = command(kinds, "open", "show the HTML report in the browser", "report", OPEN_EXAMPLES)
    root(opened)
    opened.add_argument(
        "--reports", type=Path, metavar="FOLDER", help="where the reports are (default: reports/ in the repository)"
    )
    opened.add_argument("--print", action="store_true", help="open nothing, only say where the report is")


def _merge(kinds: Commands[argparse.ArgumentParser]) -> None:
    merge = command(kinds, "merge", "one report of what several machines proved", "report_merge", MERGE_EXAMPLES)
    root(merge)
    merge.add_argument("files", nargs="+", type=Path, metavar="FILE", help="reports, or folders that hold them")
    merge.add_argument(
        "--matrix", type=Path, metavar="FILE", help="what envops shards --format json divided: all of it must be there"
    )
    printed(merge)
    merge.add_argument("--quiet", action="store_true", help="only what decides the verdict")
    merge.add_argument(
        "--reports", type=Path, default=Path("reports"), metavar="FOLDER", help="where it goes (default: reports/)"
    )


def _site(commands: Commands[argparse.ArgumentParser]) -> None:
    site = command(commands, "site", "the catalogue of the repository as static pages", "site", SITE_EXAMPLES)
    root(site)
    site.add_argument(
        "--reports", type=Path, metavar="FOLDER", help="where the reports are (default: reports/ in the repository)"
    )
    site.add_argument("--out", type=Path, metavar="FOLDER", help="where the site goes (default: site/ in the reports)")
