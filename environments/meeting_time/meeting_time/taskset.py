"""When can both? Calendars made up from a seed, one for each of two agents."""

from itertools import islice

import verifiers.v1 as vf
from pydantic import PositiveInt

from meeting_time.calendars import calendars, named_hour

PROMPT = """Ana and Ben look for the one hour between 8 and 18 o'clock in which both of them are free. Each sees only \
the own calendar. In every round both write one message at the same time and then read the other's; there are at \
most {messages} rounds.

As soon as you know the hour, write it in <meeting>…</meeting>, such as <meeting>9</meeting> for 9 to 10 o'clock. You \
have met when both name the right hour in the same round."""

NOTES = "You are {name}. You have appointments at these hours: {hours}. In all other hours from 8 to 17 you are free."


class MeetingTimeConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many pairs of calendars to make up."""
    seed: int = 0
    """Which calendars: the same seed makes up the same ones."""
    messages: PositiveInt = 4
    """How many messages each of the two may write."""


class MeetingTimeData(vf.TaskData):
    notes: dict[str, str]
    """What each of the two knows."""
    messages: int
    answer: int
    """The hour in which both are free."""


class MeetingTime(vf.Task[MeetingTimeData]):
    """Half of the reward is for the own last word; the other half both earn together: see `MeetingTimeEnv`."""

    @vf.reward(weight=0.5)
    async def right_hour(self, trace: vf.Trace) -> float:
        """Whether this agent named the right hour at last."""
        return float(named_hour(trace.last_reply) == self.data.answer)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether this agent named one hour at last, right or wrong."""
        return float(named_hour(trace.last_reply) is not None)


class MeetingTimeTaskset(vf.Taskset[MeetingTime, MeetingTimeConfig]):
    def load(self) -> list[MeetingTime]:
        made = enumerate(islice(calendars(self.config.seed), self.config.num_tasks), start=1)
        return [
            MeetingTime(
                MeetingTimeData(
                    prompt=f"Case {number}. {PROMPT.format(messages=self.config.messages)}",
                    notes={
                        name: NOTES.format(name=name.capitalize(), hours=", ".join(map(str, busy)))
                        for name, busy in (("ana", pair.ana), ("ben", pair.ben))
                    },
                    messages=self.config.messages,
                    answer=pair.hour,
                ),
                self.config.task,
            )
            for number, pair in made
        ]
