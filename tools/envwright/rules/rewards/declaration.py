"""Rules of the declared reward, and of the source text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright_worker.policies.answers import MOST_CHOICES, detect_type

from envwright.declarations.problem import nearest
from envwright.facts.observed import Place, heaviest
from envwright.facts.reward_numbers import number
from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import Evidence
from envwright.rules.schema.metadata import in_pyproject
from envwright.statistics.declared_range import is_reward

if TYPE_CHECKING:
    from collections.abc import Iterator


@rule("RWD050", gate="rewards")
def range_is_empty(subject: Subject) -> Iterator[Found]:
    """The range of the reward is empty.

    What: The maximum is above the minimum, by declaration or by the weights of the reward functions. Rewards that an
    environment of several agents records itself are known after the first scored episode.
    Why: Without a range all rewards are equal. Without a weighted function the reward is always 0.
    Fix: Give at least one reward function a weight, or correct `[tool.envwright.reward] min` and `max`.
    """
    if subject.facts.description is None:
        return
    if subject.facts.description.compares_siblings and not subject.functions and not subject.rewarded:
        return
    declared = subject.range
    if declared.span <= 0:
        functions = {name: function.weight for name, function in heaviest(subject.functions).items()}
        yield Found(
            f"the reward ranges from {number(declared.minimum)} to {number(declared.maximum)}"
            + ("" if functions else "; there is no reward function"),
            Evidence(details={"minimum": declared.minimum, "maximum": declared.maximum, "functions": functions}),
            in_pyproject(subject.package, "tool.envwright.reward"),
        )


@rule("RWD051", gate="rewards")
def declared_function_is_unknown(subject: Subject) -> Iterator[Found]:
    """A declared format function or check does not exist, or a check is part of the reward.

    What: Every name in `[tool.envwright.reward] format` and `check` is that of a reward function or metric, and those
    in `check` have no weight.
    Why: Format is neither measured nor limited. A check that is paid is not independent of the reward.
    Fix: Correct the name in pyproject.toml; make a metric of a check, or give it the weight 0.
    """
    if subject.facts.description is None:
        return
    functions = (*subject.facts.description.functions, *subject.functions)  # those replaced by their entries, too
    known = {name: each.weight if is_reward(each) else 0.0 for name, each in heaviest(functions).items()}
    reward = subject.package.reward
    for key, names in (("format", reward.format or ()), ("check", reward.check)):
        for name in names:
            place = in_pyproject(subject.package, f"tool.envwright.reward.{key}")
            evidence = Evidence(details={"found": name, "functions": list(known)})
            if name not in known:
                meant = nearest(name, known)
                message = f"{key} function {name!r} does not exist" + (f"; did you mean {meant}?" if meant else "")
                yield Found(message, evidence, place)
            elif key == "check" and known[name]:
                yield Found(f"the check {name!r} has the weight {known[name]:g} in the reward", evidence, place)


@rule("RWD044", gate="rewards", severity="warning")
def numbers_are_declared_as_labels(subject: Subject) -> Iterator[Found]:
    """Numeric answers are declared as labels.

    What: If `[tool.envwright.answer] type` is "label", the answers are not numbers of more than 12 different values.
    Why: A wrong label is any other text. Numbers that are off by one, rounded or negative are then not tried.
    Fix: Set `[tool.envwright.answer] type = "number"`, with a `tolerance` if close numbers are right.
    """
    if subject.package.answer.type != "label":
        return
    answers = [task.answer for task in subject.facts.tasks if task.answer]
    numbers = [answer for answer in answers if detect_type(answer) == "number"]
    if len(set(numbers)) > MOST_CHOICES and len(numbers) == len(answers):
        yield Found(
            f"the answers are declared as labels, and all {len(answers)} are numbers, such as {numbers[0]}",
            Evidence(count=len(numbers), of=len(answers), details={"answers": list(dict.fromkeys(numbers))[:5]}),
            in_pyproject(subject.package, "tool.envwright.answer.type"),
        )


@rule("RWD052", gate="rewards", severity="warning", protects="security")
def model_output_is_executed(subject: Subject) -> Iterator[Found]:
    """The source seems to execute model output.

    What: No `exec`, `eval` or shell call in the package receives text from a completion.
    Why: Model output then runs in the process of the reward, with its files and keys.
    Fix: Run it in a sandbox or an unprivileged subprocess, or parse it with `ast.literal_eval` or a real parser.
    """
    for note in subject.package.notes:
        if note.what == "model-output-executed":
            yield Found(
                f"{note.detail} executes text as code in the process that scores",
                Evidence(details={"source": note.detail}),
                Place(note.file, note.line),
            )
