"""A search in a real worker of either generation, and the findings of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Facts
from envwright.rules.engine import Finding, Subject, all_rules, apply
from observed import Observations, written
from planted import Planted as Environment

if TYPE_CHECKING:
    from pathlib import Path

    from rewards_to_search import Planted

RULES = ("RWD085", "RWD086", "RWD087", "RWD088", "RWD089")
ASKED = {
    "<answer>{}</answer>": "Answer in <answer>…</answer>.",
    "{}": "Say the answer only.",
    '{"answer": "{}"}': 'Reply with a JSON object: {"answer": "…"}.',
}
GRADE = """

def grade(reply, answer):
    return sum(score * WEIGHTS[name] for name, score in reward(reply, answer).items())
"""


def environment(planted: Planted, generation: str) -> Environment:
    """A planted reward as an environment of a generation."""
    rows = tuple(
        {"question": planted.prompt(number), "answer": answer} for number, answer in enumerate(planted.answers)
    )
    return Environment(
        planted.name.replace("-", "_"),
        generation,
        planted.source + GRADE,
        rows=rows,
        asking=ASKED[planted.form],
        answer={"type": planted.type, "tolerance": planted.tolerance},
    )


def searched(observations: Observations, each: Environment, folder: Path) -> tuple[Package, Facts]:
    """The facts of a search as `envwright validate` makes them, without those of other stages."""
    package = written(each, folder)
    return package, observations.facts(package, ("search",))


def fired(package: Package, facts: Facts) -> list[Finding]:
    """The findings of the rules on searches."""
    subject = Subject(EnvironmentEntry(facts.environment), package, facts)
    return [finding for rule in RULES for finding in apply(all_rules()[rule], subject)]
