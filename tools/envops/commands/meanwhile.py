"""What mutating, judging and reporting import, imported while workers are still importing verifiers."""

from __future__ import annotations

import gc
from functools import cache
from importlib import import_module

from envops.judge.engine import all_rules
from envops.observe.facts import Description, Facts, adapter


@cache
def import_meanwhile() -> None:
    """Import it: together most of a second, and none of it is needed before a worker has answered."""
    adapter(Description)
    adapter(Facts)
    for module in ("envops.observe.mutants.source", "envops.report.terminal"):
        import_module(module)
    from envops.report.html.page import TEMPLATE, templates

    all_rules()
    templates("envops.report.html").get_template(TEMPLATE)
    gc.freeze()  # it stays to the end, and going through it again and again took a tenth of the host's time
