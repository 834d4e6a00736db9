"""What the author asserts: cases, the package's own validation, pytest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envops.facts.observed import Case, Place
from envops.facts.reward_numbers import number
from envops.repository.cases import parse_expectation
from envops.repository.problem import nearest
from envops.rules.engine import Found, Subject, merged, rule
from envops.rules.evidence import Evidence, described, of_case, of_failure, shortened
from envops.rules.failures import is_nobodys_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

_CASES_FILE = "tests/cases.yaml"


def _values(case: Case) -> dict[str, float | None]:
    """What a case can expect of: the reward, and every function by name."""
    if case.score is None:
        return {}
    return {name: said.score for name, said in case.score.functions.items()} | {"reward": case.score.reward}


@rule("RWD040", gate="rewards")
def case_does_not_hold(subject: Subject) -> Iterator[Found]:
    """A case of tests/cases.yaml does not hold.

    What: The reply of each case earns what the case expects, of the reward and of each function it names.
    Why: A case is what the author means by right and wrong; the code says something else.
    Fix: Mend the reward, or the case if it is the one that is wrong.
    """
    for case in subject.facts.cases:
        values = _values(case)
        wrong = {
            name: values[name]
            for name, expected in case.expect.items()
            if values.get(name) is not None and not parse_expectation(expected).holds(values[name])
        }
        if wrong:
            name, value = next(iter(wrong.items()))
            yield Found(
                f"case {case.name!r}: {name} is {number(value)}, expected {case.expect[name]}",
                of_case(subject.facts, case),
                Place(_CASES_FILE, case.line),
            )


@rule("RWD041", gate="rewards")
def case_is_not_scored(subject: Subject) -> Iterator[Found]:
    """A case of tests/cases.yaml could not be checked.

    What: The task of each case exists, its reply is scored, and every function it names gives a score.
    Why: A case that checks nothing looks like one that holds.
    Fix: Correct the task, the reply or the function's name in tests/cases.yaml.
    """
    for case in subject.facts.cases:
        wrong = _unscored(case)
        if wrong:
            failure = case.failure or (case.score.failure if case.score else None)
            yield Found(
                f"case {case.name!r}: {wrong}",
                of_case(subject.facts, case, failure),
                Place(_CASES_FILE, case.line),
                inconclusive=is_nobodys_fault(failure),
            )


def _unscored(case: Case) -> str | None:
    if case.failure is not None:
        return described(case.failure)
    if case.score is None:
        return "was not scored"
    if case.score.failure is not None:
        return described(case.score.failure)
    values = _values(case)
    for name in case.expect:
        if values.get(name) is not None:
            continue
        if name in values:
            return f"{name} gave no number"
        meant = nearest(name, values)
        known = f"did you mean {meant}?" if meant else f"there are {', '.join(sorted(values))}"
        return f"expects {name}, which no function is called; {known}"
    return None


@rule("RWD042", gate="rewards")
def own_validation_fails(subject: Subject) -> Iterator[Found]:
    """The package's own validation rejects a task.

    What: `validate` of each task, where the package has one, says that the task is valid.
    Why: The author's own check says that the task cannot be solved or scored.
    Fix: Mend or drop the task, or mend the check.
    """
    validations = subject.facts.validations
    hits = [
        Found(
            f"task {each.task} is invalid by the package's own check"
            + (f": {described(each.failure)}" if each.failure else ""),
            replace(
                of_failure(each.failure) if each.failure else Evidence(),
                details={"task": each.task, "valid": each.valid},
            ),
            each.failure.place if each.failure else None,
        )
        for each in validations
        if each.failure is not None or each.valid is False
    ]
    yield from merged(hits, len(validations), "tasks")


@rule("RWD043", gate="rewards")
def own_tests_fail(subject: Subject) -> Iterator[Found]:
    """The author's own tests fail.

    What: Every test below tests/ passes inside the environment's own virtual environment.
    Why: The author says what must hold, and it does not.
    Fix: Run `pytest` in the environment's folder and mend what it names.
    """
    tests = subject.facts.tests
    hits = [
        Found(
            f"{each.test} {'failed' if each.outcome == 'failed' else 'could not run'}",
            Evidence(details={"test": each.test, "outcome": each.outcome, "output": shortened(each.message, 1500)}),
            each.place,
        )
        for each in tests
        if each.outcome in ("failed", "error")
    ]
    yield from merged(hits, len(tests), "tests")
