"""Both agents write at the same time, then read what the other wrote."""

import verifiers.v1 as vf

from meeting_time.calendars import agreed
from meeting_time.taskset import MeetingTimeData


class MeetingTimeEnvConfig(vf.EnvConfig):
    ana: vf.AgentConfig = vf.AgentConfig()
    ben: vf.AgentConfig = vf.AgentConfig()


class MeetingTimeEnv(vf.Env[MeetingTimeEnvConfig]):
    async def run(self, task: vf.Task[MeetingTimeData], agents: vf.Agents) -> None:
        async with (
            agents.ana.interaction(self.seat(task, "ana")) as ana,
            agents.ben.interaction(self.seat(task, "ben")) as ben,
        ):
            from_ana, from_ben = await ana.turn(), await ben.turn()
            for _ in range(task.data.messages - 1):
                said = from_ana.last_reply, from_ben.last_reply
                if from_ana.terminated or from_ben.terminated or agreed(*said) is not None:
                    break
                from_ana, from_ben = await ana.turn(f"Ben: {said[1]}"), await ben.turn(f"Ana: {said[0]}")

    def seat(self, task: vf.Task[MeetingTimeData], name: str) -> vf.Task[MeetingTimeData]:
        """The task as one of the two sees it: with one calendar."""
        return type(task)(task.data.model_copy(update={"system_prompt": task.data.notes[name]}), task.config)

    async def finalize(self, task: vf.Task[MeetingTimeData], episode: vf.Episode) -> None:
        """What only both together can earn: the same for each of them."""
        hour = agreed(*(trace.last_reply for trace in episode.traces))
        for trace in episode.traces:
            trace.record_reward("met", float(hour == task.data.answer), weight=0.5)
            trace.record_metric("agreed", float(hour is not None))
