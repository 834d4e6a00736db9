"""Rules of the author's own checks: cases, the package's validation, pytest."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envwright_worker.author_tests import CASES_FILE
from envwright_worker.author_tests.expectation import parse_expectation
from envwright_worker.failures import shortened
from packaging.utils import canonicalize_name

from envwright.declarations.problem import nearest
from envwright.facts.observed import Case, Place, TestOutcome
from envwright.facts.reward_numbers import number
from envwright.rules.engine import Found, Subject, merged, rule
from envwright.rules.evidence import Evidence, described, of_case, of_failure
from envwright.rules.failures import OFFLINE_FIX, is_endless, needs_the_network, proves_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.declarations.package import Package

LACKS_MODULE = (
    "Add `{0}` to project.dependencies and run `envwright lock`, or skip the test without it: "
    '`pytest.importorskip("{0}")`.'
)
_NO_MODULE = re.compile(r"No module named '(\w+)")


def _values(case: Case) -> dict[str, float | None]:
    """The values that a case can expect: the reward, and every function by name."""
    if case.score is None:
        return {}
    return {name: score.score for name, score in case.score.functions.items()} | {"reward": case.score.reward}


@rule("RWD040", gate="rewards")
def case_does_not_hold(subject: Subject) -> Iterator[Found]:
    """A case of tests/cases.yaml fails.

    What: The reply of each case earns the reward and the scores that the case expects.
    Why: A case defines right and wrong. The code disagrees with it.
    Fix: Fix the reward, or the case if it is wrong.
    """
    for case in subject.facts.cases:
        if _raised(case):
            continue
        values = _values(case)
        wrong = [
            name
            for name, expected in case.expect.items()
            if values.get(name) is not None and not parse_expectation(expected).holds(values[name])
        ]
        if wrong:
            yield Found(
                f"case {case.name!r}: {wrong[0]} is {number(values[wrong[0]])}, expected {case.expect[wrong[0]]}",
                of_case(subject.facts, case),
                Place(CASES_FILE, case.line),
            )


@rule("RWD041", gate="rewards")
def case_is_not_scored(subject: Subject) -> Iterator[Found]:
    """A case of tests/cases.yaml could not be checked.

    What: The task of each case exists, its reply is scored, and every function in it returns a score.
    Why: A case that checks nothing seems to pass.
    Fix: Correct the task, the reply or the function's name in tests/cases.yaml.
    """
    for case in subject.facts.cases:
        wrong = None if _raised(case) else _unscored(case)
        if wrong:
            failure = case.failure or (case.score.failure if case.score else None)
            yield Found(
                f"case {case.name!r}: {wrong}",
                of_case(subject.facts, case, failure),
                Place(CASES_FILE, case.line),
                fix=OFFLINE_FIX if needs_the_network(failure) else None,
                inconclusive=proves_nothing(failure),
            )


def _raised(case: Case) -> bool:
    """Whether a function failed on the case's reply, which rules of functions report."""
    return case.score is not None and bool(case.score.failures)


def _unscored(case: Case) -> str | None:
    if case.failure is not None:
        return described(case.failure)
    if case.score is None:
        return "was not scored"
    if case.score.failure is not None:
        return None if is_endless(case.score.failure) else described(case.score.failure)
    values = _values(case)
    for name in case.expect:
        if values.get(name) is not None:
            continue
        if name in values:
            return f"{name} returned no number"
        meant = nearest(name, values)
        known = f"did you mean {meant}?" if meant else f"known are {', '.join(sorted(values))}"
        return f"expects {name}, but there is no such function; {known}"
    return None


@rule("RWD042", gate="rewards")
def own_validation_fails(subject: Subject) -> Iterator[Found]:
    """The package's own validation rejects a task.

    What: `validate` of each task, if the package has one, accepts the task.
    Why: The task cannot be solved or scored. The author's own check shows it.
    Fix: Fix or drop the task, or fix the check.
    """
    validations = subject.facts.validations
    hits = [
        Found(
            f"task {validation.task} is invalid according to the package's own check"
            + (f": {described(validation.failure)}" if validation.failure else ""),
            replace(
                of_failure(validation.failure) if validation.failure else Evidence(),
                details={"task": validation.task, "valid": validation.valid},
            ),
            validation.failure.place if validation.failure else None,
            fix=OFFLINE_FIX if needs_the_network(validation.failure) else None,
            inconclusive=needs_the_network(validation.failure),
        )
        for validation in validations
        if validation.failure is not None or validation.valid is False
    ]
    hits.sort(key=lambda hit: hit.inconclusive)
    yield from merged(hits, len(validations), "tasks")


@rule("RWD043", gate="rewards")
def own_tests_fail(subject: Subject) -> Iterator[Found]:
    """The author's own tests fail.

    What: Every test below tests/ passes inside the environment's own virtual environment.
    Why: The tests define requirements that do not hold.
    Fix: Run the tests with `envwright test NAME` and fix the failing ones.
    """
    tests = subject.facts.tests
    hits = []
    for test in tests:
        if test.outcome in ("failed", "error"):
            message = f"{test.test} {'failed' if test.outcome == 'failed' else 'could not run'}"
            details = {"test": test.test, "outcome": test.outcome, "output": shortened(test.message, 1500)}
            missing = _missing_module(subject.package, test)
            fix = LACKS_MODULE.format(missing) if missing else None
            hits.append(Found(message, Evidence(details=details), test.place, fix=fix, inconclusive=bool(missing)))
    hits.sort(key=lambda hit: hit.inconclusive)
    yield from merged(hits, len(tests), "tests")


def _missing_module(package: Package, test: TestOutcome) -> str:
    """The module that a test lacks because only a dependency group or an extra requires it, which proves nothing."""
    missing = _NO_MODULE.search(test.message)
    return missing[1] if missing and canonicalize_name(missing[1]) in package.development_requires else ""
