"""Rules of the README and the cases, which readers and reviewers use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.facts.observed import Place
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import Evidence
from envops.rules.readme import EXPECTED_SECTIONS, missing_sections, names, text_about_rewards
from envops.statistics.declared_range import is_reward

if TYPE_CHECKING:
    from collections.abc import Iterator


@rule("SCH020", gate="schema")
def readme_is_missing(subject: Subject) -> Iterator[Found]:
    """The README is missing or empty.

    What: README.md exists in the environment's folder and has text.
    Why: It is the environment's page on the Hub.
    Fix: Write README.md with the sections task, format, reward and usage. `nox -s new` writes an example.
    """
    readme = subject.package.readme
    if readme is None or not readme.strip():
        yield Found("README.md is missing" if readme is None else "README.md is empty", Evidence(), Place("README.md"))


@rule("SCH021", gate="schema")
def readme_lacks_sections(subject: Subject) -> Iterator[Found]:
    """The README lacks a section on task, format, reward or usage.

    What: Headings introduce the task, the input and output format, the reward, and the usage.
    Why: People need these four to decide on an environment without reading its code.
    Fix: Add the missing headings with their text.
    """
    readme = subject.package.readme
    if readme is None or not readme.strip():
        return
    missing = missing_sections(readme)
    if missing:
        yield Found(
            f"README.md has no section on {', '.join(missing)}",
            Evidence(
                details={
                    "missing": list(missing),
                    "accepted": {name: list(EXPECTED_SECTIONS[name]) for name in missing},
                }
            ),
            Place("README.md"),
        )


@rule("SCH022", gate="schema", severity="warning")
def readme_does_not_name_every_reward(subject: Subject) -> Iterator[Found]:
    """The README's section on the reward does not name every reward function.

    What: Each function with a weight is named, as code or in words, below a heading on rewards.
    Why: A reward function that readers do not know about is not reviewed.
    Fix: List each reward function with its weight and what it rewards.
    """
    text = text_about_rewards(subject.package.readme or "")
    rewards = [function.name for function in subject.functions if is_reward(function)]
    unnamed = [name for name in dict.fromkeys(rewards) if not names(text, name)]
    if text and unnamed:
        yield Found(
            f"the README does not name {', '.join(unnamed)} in its section on the reward",
            Evidence(details={"missing": unnamed, "functions": {name: names(text, name) for name in rewards}}),
            Place("README.md"),
        )


@rule("SCH023", gate="schema", severity="warning")
def cases_are_missing(subject: Subject) -> Iterator[Found]:
    """There are no reward unit tests in tests/cases.yaml.

    What: tests/cases.yaml has at least one case.
    Why: Cases define right and wrong. Without them a changed reward goes unnoticed.
    Fix: Write tests/cases.yaml: a reply, and the reward or the scores that it must earn.
    """
    if not subject.package.cases:
        yield Found("tests/cases.yaml is missing or has no case", Evidence(), Place("tests/cases.yaml"))
