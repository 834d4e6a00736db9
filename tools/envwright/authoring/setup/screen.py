"""The results of `init` and `upgrade` for people, and for machines."""

from __future__ import annotations

from pathlib import Path

from envwright import __version__
from envwright.authoring.setup.answers import ANSWERS_FILE, Record
from envwright.authoring.setup.initial import InitialFiles, KeptFile
from envwright.authoring.setup.upgrading import Upgrade
from envwright.packages.repository import ENVIRONMENTS_FOLDER
from envwright.reports.page import Page
from envwright.text.plain_data import counted

MOST_LINES = 8
"""Lines that are shown of one file that stays; the JSON has all."""
MOST_FOLDERS = 6
PAGES = (".md",)
"""Files of these kinds are for people: a team's own page lacks nothing."""
_DONE = {"write": "new", "update": "updated", "merge": "merged", "remove": "removed", "conflict": "conflict"}
_TO_DO = {"write": "new", "update": "update", "merge": "merge", "remove": "remove", "conflict": "conflict"}
_STYLES = {"remove": "yellow", "conflict": "red"}


def render_initial(
    plan: InitialFiles, record: Record | None, folder: Path, *, width: int, colour: bool, dry_run: bool
) -> str:
    """The files that `init` wrote, those that stay, and the next command."""
    has_repository = (folder / ".git").exists()
    page = Page(width=width, colour=colour)
    if record is not None:
        page.line(f"{ANSWERS_FILE} is there: nothing to do.")
        if record.envwright != __version__:
            page.line(f"It is of version {record.envwright}, and this is {__version__}.")
        page.field("next", "envwright upgrade --check", indent=0, style="bold")
        return page.text()
    for path in plan.written:
        page.line(("would write  " if dry_run else "written  ", "dim"), path)
    for kept in plan.kept:
        _kept(page, kept)
    _environments(page, plan)
    if not plan.written:
        page.line("Nothing to do.")
    page.blank()
    if not has_repository:
        command = f"git init -b {plan.branch}"
        page.field("git", f"this folder is not a git repository yet: run {command} before the first commit", indent=0)
    page.field("next", _next_command(plan, folder), indent=0, style="bold")
    return page.text()


def initial_data(plan: InitialFiles) -> dict[str, object]:
    """The result of `init` for machines."""
    return {
        "written": list(plan.written),
        "kept": [{"path": one.path, "reason": one.reason, "difference": one.difference} for one in plan.kept],
        "declared": plan.declared,
        "undeclared": plan.undeclared,
    }


def render_upgrade(upgrade: Upgrade, *, width: int, colour: bool, check: bool) -> str:
    """Every change with its difference; conflicts come last, with the ways to settle them."""
    page = Page(width=width, colour=colour)
    for change in sorted(upgrade.changes, key=lambda each: each.action == "conflict"):
        word, reason = (_TO_DO if check else _DONE)[change.action], f" ({change.reason})" if change.reason else ""
        page.line((f"{word}: ", _STYLES.get(change.action, "green")), (change.path, "bold"), reason)
        page.block(change.difference)
        page.blank()
    conflicts = upgrade.conflicts
    if conflicts:
        page.paragraph(
            "Files with a conflict stay as they are. Make the shown change, as far as you want it, and keep your text:"
        )
        page.line(f"  envwright upgrade --keep {conflicts[0].path}")
        page.blank()
    changed = len(upgrade.changes) - len(conflicts)
    if not upgrade.changes:
        page.line(f"The files are those of version {__version__}: nothing to do.")
    else:
        verb = "would change" if check else "changed"
        page.line(f"{counted(changed, 'file')} {verb}, {len(conflicts)} in conflict.")
    return page.text()


def _kept(page: Page, kept: KeptFile) -> None:
    rows = kept.difference.splitlines()[2:]
    known = {row[1:] for row in rows if not row.startswith("+")} | {""}  # a line that is only moved is not lacking
    added = [row[1:] for row in rows if row.startswith("+") and row[1:] not in known]
    lacking = [] if kept.path.endswith(PAGES) else added
    said = kept.reason or ("it stays as it is, and lacks:" if lacking else "it stays as it is")
    page.line(("kept     ", "yellow"), (kept.path, "bold"), f": {said}")
    for line in lacking[:MOST_LINES]:
        page.line(f"           {line}")
    if len(lacking) > MOST_LINES:
        page.line(f"           and {len(lacking) - MOST_LINES} more lines (--format json has all)")


def _environments(page: Page, plan: InitialFiles) -> None:
    if plan.declared:
        page.field("declared", ", ".join(plan.declared), indent=0)
    by_reason: dict[str, list[str]] = {}
    for name, reason in plan.undeclared.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        more = f" and {len(names) - MOST_FOLDERS} more" if len(names) > MOST_FOLDERS else ""
        page.field("to adopt", f"{', '.join(names[:MOST_FOLDERS])}{more}: {reason}", indent=0)


def _next_command(plan: InitialFiles, folder: Path) -> str:
    if plan.undeclared:
        command = f"envwright adopt {ENVIRONMENTS_FOLDER}"
    elif plan.declared:
        command = "envwright validate"
    else:
        command = "envwright adopt SOURCE, or envwright new NAME"
    return command if folder == Path() else f"{command}, in the folder {folder}"
