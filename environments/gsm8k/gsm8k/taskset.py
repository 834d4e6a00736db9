"""Grade-school mathematics in words, from the GSM8K data set."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import verifiers.v1 as vf

from gsm8k.answers import as_number, final_number

DATASET, CONFIG = "openai/gsm8k", "main"
REVISION = "740312add88f781978c0658806c59bc2815b9866"
SAMPLE = Path(__file__).parent / "sample"

PROMPT = """{question}

Solve this step by step. Then give the answer as a number on the last line, in this form:
#### number"""


class GSM8KConfig(vf.TasksetConfig):
    source: Literal["hub", "sample"] = "hub"
    """The whole data set from the Hugging Face Hub, or the few similar questions that come with this package."""
    split: Literal["train", "test"] = "train"


class GSM8KData(vf.TaskData):
    answer: str
    """The number that follows `####` in the solution."""
    solution: str
    """The worked solution, as the data set has it."""


class GSM8K(vf.Task[GSM8KData]):
    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """Whether the number on the last line is the right one."""
        return float(final_number(trace.last_reply) == as_number(self.data.answer))

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether the last line gives a number, right or wrong."""
        return float(final_number(trace.last_reply) is not None)


class GSM8KTaskset(vf.Taskset[GSM8K, GSM8KConfig]):
    def load(self) -> list[GSM8K]:
        return [self.task(row["question"], row["answer"]) for row in self.rows()]

    def rows(self) -> Iterable[dict[str, str]]:
        if self.config.source == "sample":
            return [json.loads(line) for line in (SAMPLE / f"{self.config.split}.jsonl").open(encoding="utf-8")]
        from datasets import load_dataset  # only here: the import takes seconds and the sample does without

        return load_dataset(DATASET, CONFIG, split=self.config.split, revision=REVISION)

    def task(self, question: str, solution: str) -> GSM8K:
        answer = solution.rpartition("####")[2].strip()
        if as_number(answer) is None:
            raise ValueError(f"the solution of {question!r} ends in {answer!r}, which is not a number")
        return GSM8K(
            GSM8KData(prompt=PROMPT.format(question=question), answer=answer, solution=solution), self.config.task
        )
