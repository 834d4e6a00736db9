"""Questions about a company's books, which can only be read with tools."""

import re
from itertools import islice
from typing import Annotated

import verifiers.v1 as vf
from pydantic import Field

from ledger_lookup.ledger import questions
from ledger_lookup.server import LedgerServerConfig, LedgerToolset

PROMPT = """You keep the books of {company}. {question}

Look it up with the ledger tools. Then give the amount as a whole number in <answer>…</answer>."""

NUMBER = re.compile(r"[$€£]?(?:\d{1,3}(?:[, \u00a0\u2009\u202f]\d{3}){1,5}|\d{1,18})(?:\.0{0,9})?", re.ASCII)


def final_amount(reply: str) -> int | None:
    """The whole number in the one `<answer>` tag after any thinking; None without such a tag or with several."""
    final = reply.partition("</think>")[2] or reply
    before, _, rest = final.partition("<answer>")
    answer, closed, after = rest.partition("</answer>")
    stray = "think>" in final or "</answer>" in before + after or "<answer>" in rest
    text = answer.strip()
    if stray or not closed or not NUMBER.fullmatch(text):
        return None
    return int(re.sub(r"\D", "", text.partition(".")[0]))


class LedgerLookupConfig(vf.TasksetConfig):
    num_tasks: Annotated[int, Field(ge=1, le=2000)] = 200
    """How many questions to make up."""
    seed: int = 0
    """Which books and questions: the same seed makes up the same ones."""
    tools: LedgerServerConfig = LedgerServerConfig()


class LedgerLookupData(vf.TaskData):
    answer: int


class LedgerLookup(vf.Task[LedgerLookupData]):
    @vf.reward(weight=1.0)
    async def correct_amount(self, trace: vf.Trace) -> float:
        """Whether the one amount given at the end is right."""
        return float(final_amount(trace.last_reply) == self.data.answer)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether there is one amount and it is a whole number, right or wrong."""
        return float(final_amount(trace.last_reply) is not None)

    @vf.metric
    async def tool_calls(self, trace: vf.Trace) -> float:
        """How many tools the agent called."""
        return float(sum(len(message.tool_calls or []) for message in trace.assistant_messages))


class LedgerLookupTaskset(vf.Taskset[LedgerLookup, LedgerLookupConfig]):
    @classmethod
    def toolsets(cls, config: LedgerLookupConfig) -> list[vf.Toolset]:
        """One server for all rollouts: the tools only read, so there is nothing to keep apart."""
        return [LedgerToolset(config.tools.model_copy(update={"seed": config.seed}))]

    def load(self) -> list[LedgerLookup]:
        return [
            LedgerLookup(
                LedgerLookupData(prompt=PROMPT.format(company=company, question=question), answer=answer),
                self.config.task,
            )
            for company, question, answer in islice(questions(self.config.seed), self.config.num_tasks)
        ]
