"""The user's side of the conversation, as a script."""

import verifiers.v1 as vf

from alphabet_sort.taskset import AlphabetSortData


class AlphabetSortEnv(vf.SingleAgentEnv):
    """Lets the agent answer the prompt, then says each follow-up in turn."""

    async def run(self, task: vf.Task[AlphabetSortData], agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as conversation:
            segment = await conversation.turn()
            for follow_up in task.data.follow_ups:
                if segment.terminated:
                    break
                segment = await conversation.turn(follow_up)
