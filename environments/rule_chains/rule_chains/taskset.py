"""Does it follow? Rules and facts made up from a seed, answered with true or false."""

import re
from itertools import islice

import verifiers.v1 as vf
from pydantic import PositiveInt

from rule_chains.worlds import worlds

PROMPT = """{text}

Nothing else is known, and whatever does not follow from this is false. True or false: {statement}?

Reason step by step, then write true or false in <answer>…</answer>."""

TAG = re.compile(r"</?(?:think|answer)>")
VALUES = {"true": True, "false": False}


def final_answer(reply: str) -> bool | None:
    """What the one `<answer>` tag after any thinking says; None without one such tag, or with other words in it."""
    final = reply.partition("</think>")[2] or reply
    if TAG.findall(final) != ["<answer>", "</answer>"]:
        return None
    return VALUES.get(TAG.split(final)[1].strip().lower())


class RuleChainsConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many worlds to make up."""
    seed: int = 0
    """Which worlds: the same seed makes up the same ones."""


class RuleChainsData(vf.TaskData):
    steps: int
    """How many rules lead to the statement, or would if its first condition held."""
    answer: bool


class RuleChains(vf.Task[RuleChainsData]):
    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """Whether the one answer given is the right one."""
        return float(final_answer(trace.last_reply) is self.data.answer)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether there is one answer that is true or false, right or wrong."""
        return float(final_answer(trace.last_reply) is not None)


class RuleChainsTaskset(vf.Taskset[RuleChains, RuleChainsConfig]):
    def load(self) -> list[RuleChains]:
        return [
            RuleChains(
                RuleChainsData(
                    prompt=PROMPT.format(text=world.text, statement=world.statement),
                    steps=world.steps,
                    answer=world.follows,
                ),
                self.config.task,
            )
            for world in islice(worlds(self.config.seed), self.config.num_tasks)
        ]
