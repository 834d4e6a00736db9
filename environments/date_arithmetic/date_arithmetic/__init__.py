"""Calendar questions, answered with a date."""

from itertools import islice
from typing import Literal

import verifiers as vf
from datasets import Dataset

from date_arithmetic.questions import questions
from date_arithmetic.rewards import FinalAnswerParser, correct_answer, format_reward

__all__ = ["load_environment"]

SYSTEM_PROMPT = """Work out which date is asked for, in the Gregorian calendar. Reply in this form:

{form}

Inside the answer tags write the date as YYYY-MM-DD and nothing else."""


def dataset(seed: int, split: Literal["train", "eval"], size: int) -> Dataset:
    rows = islice(questions(seed, split), size)
    return Dataset.from_list([{"question": text, "answer": answer.isoformat()} for text, answer in rows])


def load_environment(num_examples: int = 200, num_eval: int = 50, seed: int = 0) -> vf.Environment:
    """Calendar questions made up from a seed: `num_examples` to train on and `num_eval` others to evaluate on."""
    parser = FinalAnswerParser()
    return vf.SingleTurnEnv(
        dataset=dataset(seed, "train", num_examples),
        eval_dataset=dataset(seed, "eval", num_eval),
        system_prompt=SYSTEM_PROMPT.format(form=parser.get_format_str()),
        parser=parser,
        rubric=vf.Rubric(funcs=[correct_answer, format_reward], weights=[1.0, 0.2], parser=parser),
    )
