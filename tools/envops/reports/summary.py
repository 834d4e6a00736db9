"""The sentences that several reports share: the verdict in words and what to do next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envops.text.plain_data import seconds_text

if TYPE_CHECKING:
    from envops.rules.engine import Verdict
    from envops.rules.result import ValidationResult

LONGEST_COMMAND_NAMES = 6
"""With more environments than this, the command validates all of them."""
_VERDICT_WORDS: dict[Verdict, str] = {
    "fail": "failed",
    "error": "not judged",
    "inconclusive": "inconclusive",
    "pass": "passed",
}
_SHELL_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def headline(result: ValidationResult) -> str:
    """The outcome in one sentence, without the verdict's own word."""
    if result.problems:
        return f"{problems_sentence(result)}; nothing was observed"
    if not result.environments and not result.unfinished:
        return "no environments selected, nothing to validate"
    counts = result.outline.counts
    total = len(result.environments) + len(result.unfinished)
    parts = [f"{counts[verdict]} {words}" for verdict, words in _VERDICT_WORDS.items() if counts[verdict]]
    if result.unfinished:
        parts.append(f"{len(result.unfinished)} unfinished")
    noun = "environment" if total == 1 else "environments"
    start = "interrupted, partial report: " if result.interrupted else ""
    return f"{start}{total} {noun}: {', '.join(parts)}; {cache_sentence(result)}; {seconds_text(result.seconds)}"


def problems_sentence(result: ValidationResult) -> str:
    """The number of problems in the declarations."""
    count, files = len(result.problems), len({problem.file for problem in result.problems})
    return f"{count} {'problem' if count == 1 else 'problems'} in {files} declared {'file' if files == 1 else 'files'}"


def cache_sentence(result: ValidationResult) -> str:
    """The number of verdicts from cached observations."""
    cached = result.outline.cached
    if cached and cached == len(result.environments):
        return "all from the cache" if cached > 1 else "from the cache"
    return f"{cached} from the cache"


def policy_sentence(result: ValidationResult) -> str:
    """The policies of the run, and what they can prove; empty if there were none."""
    spoke = result.outline.policies
    if not spoke:
        return ""
    names = f"Policies: {', '.join(spoke)}"
    if result.endpoint:
        return f"{names}; real model: {result.endpoint}."
    return f"{names}. Scripted policies test an environment and do not measure its difficulty."


def next_commands(result: ValidationResult) -> tuple[str, ...]:
    """What to run next, the most useful first."""
    session = result.gates[0] if len(result.gates) == 1 else "validate"
    if result.problems:
        return (f"nox -s {session}",)
    if result.interrupted:
        return (_session(session, [*(name for name, _ in result.outline.unmet), *result.unfinished]),)
    if unmet := result.outline.unmet:
        rule = next((rule for _, rule in unmet if rule), None)
        explain = (f"envops explain {rule}",) if rule else ()
        return (*explain, _session(session, [name for name, _ in unmet]))
    return ("git push",) if result.verdict == "pass" and result.environments else (f"nox -s {session}",)


def _session(session: str, names: list[str]) -> str:
    typeable = all(_SHELL_SAFE.fullmatch(name) for name in names)
    if not names or len(names) > LONGEST_COMMAND_NAMES or not typeable:
        return f"nox -s {session}"
    return f"nox -s {session} -- {' '.join(names)}"
