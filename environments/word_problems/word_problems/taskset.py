"""Arithmetic word problems, made up from a seed and answered with one whole number."""

from itertools import islice

import verifiers.v1 as vf
from pydantic import PositiveInt

from word_problems.answers import final_answer, whole_number
from word_problems.stories import stories

PROMPT = """{story}

Work it out step by step, then give the answer as a whole number in <answer>…</answer>."""


class WordProblemsConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many problems to make up."""
    seed: int = 0
    """Which problems: the same seed makes up the same ones."""


class WordProblemData(vf.TaskData):
    kind: str
    """The family of the story: collection, products, packing or comparison."""
    answer: int


class WordProblem(vf.Task[WordProblemData]):
    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """Whether the one answer given is the right number."""
        return float(whole_number(final_answer(trace.last_reply)) == self.data.answer)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether there is one answer and it is a whole number, right or wrong."""
        return float(whole_number(final_answer(trace.last_reply)) is not None)


class WordProblemsTaskset(vf.Taskset[WordProblem, WordProblemsConfig]):
    def load(self) -> list[WordProblem]:
        return [
            WordProblem(
                WordProblemData(prompt=PROMPT.format(story=story.text), kind=story.kind, answer=story.answer),
                self.config.task,
            )
            for story in islice(stories(self.config.seed), self.config.num_tasks)
        ]
