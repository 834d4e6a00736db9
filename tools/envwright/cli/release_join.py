"""`envwright release join`: join the results of publishing and loading in one ledger."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.printed_ledger import print_ledger
from envwright.release.ledger import ATTESTATIONS, LEDGER, LedgerFile, LedgerUnreadable, read_ledger
from envwright.release.loading import LOADED, join_loaded, read_loaded
from envwright.release.outcome import outcome
from envwright.reports.printing import append_to_summary
from envwright.text.scrubbing import Scrubber
from envwright.text.visible_text import on_one_line

EXAMPLES = """examples:
  envwright release join published/ loaded/     after `envwright release verify`; writes reports/release.json

  envwright release join published/ loaded/ --attested failure   afterwards: one more line in the ledger

reports/verified.sha256 has a line for each wheel that was fetched, compared with the tested one, installed and loaded
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("published", type=Path, metavar="PUBLISHED", help="the folder with release.json")
    command.add_argument("loaded", type=Path, metavar="LOADED", help="the folder with loaded.json")
    command.add_argument(
        "--attested",
        choices=sorted(ATTESTATIONS),
        help="write the outcome of the attestation into the ledger, and print that alone; it changes no exit code",
    )
    arguments.root(command)
    arguments.printed(command, "markdown")
    arguments.reports(command)


def run(options: argparse.Namespace) -> int:
    """Write the whole ledger and the hashes of what was verified; return the exit code of the release."""
    try:
        ledger = read_ledger(options.published / LEDGER)
        loaded = read_loaded(options.loaded / LOADED, ledger.commit)
    except LedgerUnreadable as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    for entry in list(join_loaded(ledger.entries, loaded)):
        ledger.put(entry)
    file = LedgerFile(ledger, options.reports or options.root.absolute() / "reports", Scrubber.of_environment())
    code, why = outcome(ledger)
    if options.attested:
        ledger.attestation = ATTESTATIONS[options.attested]
        print(ledger.attestation)
        with suppress(OSError):
            append_to_summary(f"- {ledger.attestation}\n")
    else:
        print_ledger(file, options.format)
    file.close()
    if file.failed:
        code, why = code or exit_codes.ERROR, why or file.failed
    if why:
        print(f"exit code {code}: {on_one_line(why)}", file=sys.stderr)
    return code
