"""The project itself: locks, generated files, the catalogue of rules."""

from __future__ import annotations

import argparse

from envops.cli.arguments import Commands, command, root, selection

LOCK_EXAMPLES = """examples:
  envops lock                 all environments
  envops lock reverse-text    one
  envops lock --environments --resolution lowest-direct    does what is allowed at least still work?
"""
TOGETHER_EXAMPLES = """examples:
  envops together                  all, those of each generation of verifiers for themselves
  envops together gsm8k wordle     these
"""
EXPLAIN_EXAMPLES = """examples:
  envops explain RWD001
"""
DOCS_EXAMPLES = """examples:
  envops docs
  envops docs --check    in CI
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    lock = command(commands, "lock", "resolve every environment's requirements.lock anew", "lock", LOCK_EXAMPLES)
    selection(lock, changed=False)
    lock.add_argument("--environments", action="store_true", help="leave the tool's own locks as they are")
    lock.add_argument(
        "--resolution",
        choices=("highest", "lowest-direct"),
        default="highest",
        help="of what is allowed, the newest or, of direct requirements, the oldest (default: highest)",
    )
    together = command(
        commands, "together", "install all environments into one place and import them", "together", TOGETHER_EXAMPLES
    )
    selection(together, changed=False)
    explain = command(commands, "explain", "what a rule checks, why, and how to mend it", "explain", EXPLAIN_EXAMPLES)
    explain.add_argument("rules", nargs="*", metavar="RULE", help="rule ids; all of them in short when none is given")
    docs = command(
        commands,
        "docs",
        "write what is generated: CODEOWNERS, docs/{rules,cli,registry,architecture}.md",
        "docs",
        DOCS_EXAMPLES,
    )
    docs.add_argument("--check", action="store_true", help="write nothing, fail where something is out of date")
    root(docs)
