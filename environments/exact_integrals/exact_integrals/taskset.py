"""Exact integrals, made up from a seed and answered with a number in LaTeX."""

import re
from fractions import Fraction
from itertools import islice

import verifiers.v1 as vf
from pydantic import PositiveInt

from exact_integrals.integrals import integrals, latex

PROMPT = """Compute

$${integral}$$

Work it out step by step, then give the exact value, a whole number or a fraction in LaTeX, in \\boxed{{…}}."""

BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")  # with one level of braces inside, as a fraction has
FRACTION = re.compile(r"^(-?)\\[dt]?frac\{(.*)\}\{(.*)\}")
NUMBER = re.compile(r"-?\d{1,9}(?:/[1-9]\d{0,8})?", re.ASCII)


def final_box(reply: str) -> str:
    """What stands in the one `\\boxed{}` after any thinking; nothing without one or with several."""
    final = reply.partition("</think>")[2] or reply
    found = BOX.findall(final)
    return found[0].strip() if final.count("\\boxed") == len(found) == 1 and "think>" not in final else ""


def exact_number(text: str) -> Fraction | None:
    """The number that a text is: 5, \\frac{7}{3}, -\\dfrac{14}{6}, \\frac{-7}{3}, 7/3; None if it is anything else."""
    plain = FRACTION.sub(r"\1\2/\3", text.replace("−", "-"))
    return Fraction(plain) if NUMBER.fullmatch(plain) else None


class ExactIntegralsConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many integrals to make up."""
    seed: int = 0
    """Which integrals: the same seed makes up the same ones."""


class ExactIntegralsData(vf.TaskData):
    answer: str
    """The value in LaTeX, in lowest terms."""


class ExactIntegrals(vf.Task[ExactIntegralsData]):
    @vf.reward(weight=1.0)
    async def correct_value(self, trace: vf.Trace) -> float:
        """Whether the one number in the box is the value of the integral."""
        return float(exact_number(final_box(trace.last_reply)) == exact_number(self.data.answer))

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether there is one box with an exact number in it, right or wrong."""
        return float(exact_number(final_box(trace.last_reply)) is not None)


class ExactIntegralsTaskset(vf.Taskset[ExactIntegrals, ExactIntegralsConfig]):
    def load(self) -> list[ExactIntegrals]:
        return [
            ExactIntegrals(
                ExactIntegralsData(prompt=PROMPT.format(integral=made.latex()), answer=latex(made.value())),
                self.config.task,
            )
            for made in islice(integrals(self.config.seed), self.config.num_tasks)
        ]
