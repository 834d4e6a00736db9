"""Who sits where? Clues made up from a seed, answered with the letter of a choice."""

import re
from itertools import islice

import verifiers.v1 as vf
from pydantic import PositiveInt

from seating_order.rows import Puzzle, puzzles

PROMPT = """Five people sit in a row on seats 1 to 5, counted from the left.

{clues}

Who sits on seat {seat}?
{choices}

Reason step by step, then write the letter of the right choice in <answer>…</answer>."""

TAG = re.compile(r"</?(?:think|answer)>")
LETTER = re.compile(r"[A-E]|\([A-E]\)|[A-E][).]")  # B, (B), B) or B.


def final_letter(reply: str) -> str | None:
    """The letter in the one `<answer>` tag after any thinking; None without such a tag, with several or other text."""
    final = reply.partition("</think>")[2] or reply
    if TAG.findall(final) != ["<answer>", "</answer>"]:
        return None
    answer = TAG.split(final)[1].strip()
    return answer.strip("().") if LETTER.fullmatch(answer) else None


class SeatingOrderConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many puzzles to make up."""
    seed: int = 0
    """Which puzzles: the same seed makes up the same ones."""


class SeatingOrderData(vf.TaskData):
    answer: str
    """The letter of the right choice."""


class SeatingOrder(vf.Task[SeatingOrderData]):
    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """Whether the one letter given is the right one."""
        return float(final_letter(trace.last_reply) == self.data.answer)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether there is one letter, right or wrong."""
        return float(final_letter(trace.last_reply) is not None)


class SeatingOrderTaskset(vf.Taskset[SeatingOrder, SeatingOrderConfig]):
    def load(self) -> list[SeatingOrder]:
        return [self.task(puzzle) for puzzle in islice(puzzles(self.config.seed), self.config.num_tasks)]

    def task(self, puzzle: Puzzle) -> SeatingOrder:
        choices = [f"{letter}) {person}" for letter, person in zip("ABCDE", puzzle.choices, strict=True)]
        prompt = PROMPT.format(clues="\n".join(puzzle.clues), seat=puzzle.seat, choices="\n".join(choices))
        return SeatingOrder(SeatingOrderData(prompt=prompt, answer=puzzle.letter), self.config.task)
