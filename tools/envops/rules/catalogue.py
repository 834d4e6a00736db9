"""The rule catalogue, made from the rules themselves: docs/rules.md and `envops explain`."""

from __future__ import annotations

from envops.repository.problem import nearest
from envops.rules.engine import ALL_GATES, Gate, Rule, Severity, all_rules

CATALOGUE_FILE = "docs/rules.md"

_GATES: dict[Gate, str] = {
    "schema": "Is the package what it says, and does it install, load and hold tasks?",
    "rewards": "Does the reward tell right from wrong, on every reply and every time?",
    "smoke": "Does a real evaluation end, with the rewards that were predicted?",
    "distribution": "Do the rewards vary enough to learn from?",
    "release": "Does the version say what changed? Judged by `nox -s plan`, from git's history.",
    "run": "Will the declared training run start, and does its configuration give it a chance?",
    "diagnosis": "What is wrong with a run that is under way, and what is to be changed?",
}
_HEADINGS: dict[Gate, str] = {"run": "Training runs", "diagnosis": "Diagnoses of runs"}
_SEVERITIES: dict[Severity, str] = {
    "error": "fails its gate",
    "warning": "is shown and does not fail anything",
    "advice": "is shown as a hint",
}
_INTRODUCTION = """\
# Rules

Made from the rules in `tools/envops/rules` by `envops docs`; a test compares. Do not edit by hand.

A rule that fires fails its gate when its severity is *error* and the evidence is conclusive; too little evidence is
*inconclusive*; warnings and advice are only shown. `envops explain RULE` prints one entry.

Any rule can be ignored for one environment, with a reason that every report shows. In `registry.yaml`:

```yaml
environments:
  reverse-text:
    ignore:
      RWD005: "the answer is a paraphrase, and small changes of it are right"
```

An ignored rule that does not exist or finds nothing is itself reported (SCH090, SCH091). Rules of training runs are
ignored the same way, with `ignore` below the run.
"""


class UnknownRuleError(LookupError):
    """No rule has this id."""


def render_catalogue() -> str:
    """The text of docs/rules.md."""
    rules = list(all_rules().values())
    parts = [_INTRODUCTION, "| rule | gate | severity | title |\n|---|---|---|---|"]
    parts[-1] += "".join(
        f"\n| [{each.id}](#{each.id.lower()}) | {each.gate} | {each.severity} | {each.title} |" for each in rules
    )
    for gate in ALL_GATES:
        parts.append(f"\n## {_HEADINGS.get(gate, f'The {gate} gate')}\n\n{_GATES[gate]}")
        parts.extend(_entry(each) for each in rules if each.gate == gate)
    return "\n".join(parts) + "\n"


def _entry(known: Rule) -> str:
    return (
        f"\n### {known.id}\n\n**{known.title}** ({known.severity}: {_SEVERITIES[known.severity]}).\n\n"
        f"What it checks: {known.what}\n\nWhy: {known.why}\n\nHow to fix: {known.fix}\n\n"
        f'How to ignore: `ignore: {{{known.id}: "the reason"}}`'
    )


def explain(rule_id: str) -> str:
    """One rule for a terminal.

    Raises `UnknownRuleError`, with the nearest id, when there is none of that id.
    """
    rules = all_rules()
    known = rules.get(rule_id.strip().upper())
    if known is None:
        meant = nearest(rule_id.strip().upper(), rules)
        raise UnknownRuleError(f"there is no rule {rule_id}" + (f"; did you mean {meant}?" if meant else ""))
    return (
        f"{known.id}  {known.title}\n"
        f"{known.gate} gate, {known.severity}: {_SEVERITIES[known.severity]}\n\n"
        f"What    {known.what}\n\nWhy     {known.why}\n\nFix     {known.fix}\n\n"
        f'Ignore  registry.yaml, below the environment or run: `ignore: {{{known.id}: "the reason"}}`\n'
    )
