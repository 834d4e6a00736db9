"""The project itself: locks, generated files, the catalogue of rules."""

from __future__ import annotations

import argparse

from envops.command_line.arguments import Commands, command, root, selection

LOCK_EXAMPLES = """examples:
  envops lock                 all environments
  envops lock reverse-text    one
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
    explain = command(commands, "explain", "what a rule checks, why, and how to mend it", "explain", EXPLAIN_EXAMPLES)
    explain.add_argument("rules", nargs="*", metavar="RULE", help="rule ids; all of them in short when none is given")
    docs = command(commands, "docs", "write what is generated: CODEOWNERS, docs/rules.md", "docs", DOCS_EXAMPLES)
    docs.add_argument("--check", action="store_true", help="write nothing, fail where something is out of date")
    root(docs)
