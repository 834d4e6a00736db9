"""Reverse a text character by character."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import verifiers.v1 as vf
from pydantic import Field, PositiveInt

from reverse_text.similarity import similarity
from reverse_text.texts import strings, texts

PROMPT = """Reverse the text between the text tags character by character: its last character comes first, its first \
character last. Capital letters, spaces and punctuation stay as they are.

<text>{text}</text>

Write the reversed text, and nothing else, in <reversed_text>…</reversed_text>."""


def final_answer(reply: str) -> str | None:
    """What stands in the one `<reversed_text>` tag after any thinking; None without such a tag or with several."""
    final = reply.partition("</think>")[2] or reply
    before, _, rest = final.partition("<reversed_text>")
    answer, closed, after = rest.partition("</reversed_text>")
    stray = "think>" in final or "</reversed_text>" in before + after or "<reversed_text>" in rest
    return None if stray or not closed else answer.strip()


class ReverseTextConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many texts to make up."""
    seed: int = 0
    """Which texts: the same seed makes up the same ones."""
    longest: Annotated[int, Field(ge=2, le=50)] = 12
    """The most words a text may have; each text has at least two."""
    letters: Annotated[int, Field(ge=5, le=8)] | None = None
    """Strings of so many letters a to c instead of sentences: where a curriculum, or a very small model, begins."""


class ReverseTextData(vf.TaskData):
    text: str
    answer: str


class ReverseText(vf.Task[ReverseTextData]):
    @vf.reward(weight=1.0)
    async def reversed_text(self, trace: vf.Trace) -> float:
        """How near the one text given is to the reversed text: 1.0 only for the text itself."""
        return similarity(final_answer(trace.last_reply) or "", self.data.answer)

    @vf.metric
    async def exact_match(self, trace: vf.Trace) -> float:
        """Whether every character is right."""
        return float(final_answer(trace.last_reply) == self.data.answer)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether there is one answer, right or wrong."""
        return float(bool(final_answer(trace.last_reply)))


class ReverseTextTaskset(vf.Taskset[ReverseText, ReverseTextConfig]):
    def load(self) -> list[ReverseText]:
        return [
            ReverseText(
                ReverseTextData(prompt=PROMPT.format(text=text), text=text, answer=text[::-1]), self.config.task
            )
            for text in islice(self.texts(), self.config.num_tasks)
        ]

    def texts(self) -> Iterator[str]:
        if self.config.letters is not None:
            return strings(self.config.seed, self.config.letters)
        return texts(self.config.seed, self.config.longest)
