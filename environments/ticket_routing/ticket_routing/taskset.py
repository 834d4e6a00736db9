"""Which queue? A policy and a ticket made up from a seed, answered with the name of a queue."""

import re
from itertools import islice

import verifiers.v1 as vf
from pydantic import PositiveInt

from ticket_routing.tickets import Case, cases

PROMPT = """You route support tickets. The first rule that fits decides; a ticket that no rule fits goes to {default}.

{rules}

Customer: {plan} plan, {seats} seats
Message: {message}

Think about which rules fit, then write the queue in <queue>…</queue>, one of {queues}."""

TAG = re.compile(r"</?(?:think|queue)>")


def final_queue(reply: str) -> str | None:
    """What stands in the one `<queue>` tag after any thinking, in small letters; None without one or with several."""
    final = reply.partition("</think>")[2] or reply
    return TAG.split(final)[1].strip().lower() if TAG.findall(final) == ["<queue>", "</queue>"] else None


class TicketRoutingConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many policies and tickets to make up."""
    seed: int = 0
    """Which ones: the same seed makes up the same ones."""


class TicketRoutingData(vf.TaskData):
    queues: list[str]
    """All queues of the policy."""
    answer: str


class TicketRouting(vf.Task[TicketRoutingData]):
    @vf.reward(weight=1.0)
    async def correct_queue(self, trace: vf.Trace) -> float:
        """Whether the one queue named is the right one."""
        return float(final_queue(trace.last_reply) == self.data.answer)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether one queue of the policy is named, right or wrong."""
        return float(final_queue(trace.last_reply) in self.data.queues)


class TicketRoutingTaskset(vf.Taskset[TicketRouting, TicketRoutingConfig]):
    def load(self) -> list[TicketRouting]:
        return [self.task(case) for case in islice(cases(self.config.seed), self.config.num_tasks)]

    def task(self, case: Case) -> TicketRouting:
        prompt = PROMPT.format(
            default=case.queues[0],
            rules="\n".join(f"Rule {number}: {rule.text}" for number, rule in enumerate(case.rules, start=1)),
            plan=case.ticket.plan,
            seats=case.ticket.seats,
            message=case.ticket.message,
            queues=", ".join(sorted(case.queues)),
        )
        return TicketRouting(
            TicketRoutingData(prompt=prompt, queues=sorted(case.queues), answer=case.queue), self.config.task
        )
