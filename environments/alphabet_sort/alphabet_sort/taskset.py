"""Sort names, then keep the list sorted as more names arrive turn by turn."""

from itertools import islice
from typing import Annotated

import verifiers.v1 as vf
from pydantic import Field, PositiveInt

from alphabet_sort.people import guests

PROMPT = """Sort these people alphabetically by {key}:

{people}

Write the sorted list in <names>…</names>, one person per line and nothing else. More people will follow."""

FOLLOW_UP = """Add these people and give the whole list again, sorted in the same way and in the same format:

{people}"""


def final_list(reply: str) -> list[str] | None:
    """The lines of the one `<names>` tag after any thinking; None without such a tag or with several."""
    final = reply.partition("</think>")[2] or reply
    before, _, rest = final.partition("<names>")
    names, closed, after = rest.partition("</names>")
    stray = "think>" in final or "</names>" in before + after or "<names>" in rest
    return None if stray or not closed else [line.strip() for line in names.splitlines() if line.strip()]


class AlphabetSortConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many conversations to make up."""
    seed: int = 0
    """Which conversations: the same seed makes up the same ones."""
    most_turns: Annotated[int, Field(ge=2, le=8)] = 4
    """The most user turns a conversation may have; each has at least two."""


class AlphabetSortData(vf.TaskData):
    follow_ups: list[str]
    """What the user says after each of the agent's replies but the last."""
    sorted_lists: list[list[str]]
    """The right list for each turn."""


class AlphabetSort(vf.Task[AlphabetSortData]):
    @vf.reward(weight=1.0)
    async def sorted_turns(self, trace: vf.Trace) -> float:
        """The share of turns whose list is exactly right."""
        wanted = self.data.sorted_lists
        return sum(given == right for given, right in zip(self.lists(trace), wanted, strict=False)) / len(wanted)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """The share of turns with one list, right or wrong."""
        wanted = self.data.sorted_lists
        return sum(bool(given) for given in self.lists(trace)[: len(wanted)]) / len(wanted)

    def lists(self, trace: vf.Trace) -> list[list[str] | None]:
        """The list given in each turn. A message that calls a tool is not yet the turn's reply."""
        return [final_list(message.content or "") for message in trace.assistant_messages if not message.tool_calls]


class AlphabetSortTaskset(vf.Taskset[AlphabetSort, AlphabetSortConfig]):
    def load(self) -> list[AlphabetSort]:
        return [
            AlphabetSort(
                AlphabetSortData(
                    prompt=PROMPT.format(key=party.key, people="\n".join(party.batches[0])),
                    follow_ups=[FOLLOW_UP.format(people="\n".join(batch)) for batch in party.batches[1:]],
                    sorted_lists=party.sorted_lists(),
                ),
                self.config.task,
            )
            for party in islice(guests(self.config.seed, self.config.most_turns), self.config.num_tasks)
        ]
