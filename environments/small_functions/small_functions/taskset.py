"""Write a function: descriptions made up from a seed, answered with Python that is run on hidden inputs."""

import re
from itertools import islice

import verifiers.v1 as vf
from pydantic import PositiveInt

from small_functions.functions import exercises
from small_functions.sandbox import called

PROMPT = """Write a Python function `solve(numbers)` for a list of whole numbers, which may be empty.

{description}

Use nothing but Python itself. Write the function, and nothing else, in <answer>…</answer>."""

TAG = re.compile(r"</?(?:think|answer)>")
FENCE = re.compile(r"```(?:python|py)?\n(.*)\n```", re.DOTALL)


def final_code(reply: str) -> str | None:
    """What the one `<answer>` tag after any thinking holds, without a fence; None without one such tag."""
    final = reply.partition("</think>")[2] or reply
    if TAG.findall(final) != ["<answer>", "</answer>"]:
        return None
    return FENCE.sub(r"\1", TAG.split(final)[1].strip())


class SmallFunctionsConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many exercises to make up."""
    seed: int = 0
    """Which exercises: the same seed makes up the same ones."""


class SmallFunctionsData(vf.TaskData):
    inputs: list[list[int]]
    """What the function is called with."""
    outputs: list[int]
    """What it should return."""


class SmallFunctions(vf.Task[SmallFunctionsData]):
    @vf.reward(weight=1.0)
    async def all_right(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        """Whether the function returns what it should for every input."""
        code = final_code(trace.last_reply)
        given = await called(code, self.data.inputs, runtime) if code else []
        trace.record_metric("share_right", share(given, self.data.outputs))
        return float(share(given, self.data.outputs) == 1)


def share(given: list[str | None], wanted: list[int]) -> float:
    """The share of results that are right; they are compared as Python writes them, so True and 1.0 are not 1."""
    return sum(one == str(right) for one, right in zip(given, wanted, strict=False)) / len(wanted)


class SmallFunctionsTaskset(vf.Taskset[SmallFunctions, SmallFunctionsConfig]):
    def load(self) -> list[SmallFunctions]:
        return [
            SmallFunctions(
                SmallFunctionsData(
                    prompt=PROMPT.format(description=made.description), inputs=made.inputs, outputs=made.outputs
                ),
                self.config.task,
            )
            for made in islice(exercises(self.config.seed), self.config.num_tasks)
        ]
