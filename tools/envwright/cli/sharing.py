"""What the commands that read or write a store have in common."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

from envwright.builds.sandbox import why_not_confined
from envwright.cli.selection import Choice
from envwright.observing.store.settings import KEY, SettingsRefused, StoreSettings, store_settings
from envwright.observing.verdicts import ValidationRequest
from envwright.text.plain_data import seconds_text

REPORT_EVERY_SECONDS = 10.0


def declared_store(options: argparse.Namespace) -> StoreSettings | None:
    """The store of this user's variables; `None` with `--no-store`. Raises `SettingsRefused`.

    The private key leaves the variables in both cases, because no child process may inherit it.
    """
    store = store_settings(os.environ)
    return None if getattr(options, "no_store", False) else store


def refuse_key_beside_unconfined(store: StoreSettings | None, choice: Choice) -> None:
    """Raise `SettingsRefused` if code of an environment would run without a sandbox beside the store's private key."""
    if store is None or store.key is None or not choice.names:
        return
    entries = choice.repository.registry.environments
    reasons = {name: why_not_confined(entries[name].sandbox) for name in choice.names if name in entries}
    bare = next((name for name, reason in reasons.items() if reason), None)
    if bare is not None:
        raise SettingsRefused(
            f"{KEY} is set, and {bare} would run without a sandbox beside it ({reasons[bare]}): "
            "prove without the key, then run envwright store push with it"
        )


def count_of(total: int, done_what: str, *, quiet: bool) -> Callable[[int], None]:
    """A listener that prints from time to time how many of the environments are done."""
    said = time.monotonic()

    def report(done: int) -> None:
        nonlocal said
        if not quiet and done < total and time.monotonic() - said > REPORT_EVERY_SECONDS:
            said = time.monotonic()
            print(f"store: {done} of {total} environments {done_what}", file=sys.stderr)

    return report


def send(request: ValidationRequest, names: Sequence[str], store: StoreSettings, *, quiet: bool) -> bool:
    """Write own results into the store, report it on standard error, and return whether all were written."""
    from envwright.observing.store.sharing import refused_text, sent

    started = time.monotonic()
    exchange = sent(request, names, store, count_of(len(names), "written", quiet=quiet))
    if not quiet or exchange.trouble:
        lines = [f"wrote {exchange.entries} entries in {seconds_text(time.monotonic() - started)}"]
        lines += [f"not shared: {refused_text(exchange)}"] if exchange.refused else []
        lines += [f"not all was written: {exchange.trouble}"] if exchange.trouble else []
        print("\n".join(f"store {store.address}: {line}" for line in lines), file=sys.stderr)
    return not exchange.trouble
