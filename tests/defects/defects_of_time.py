"""Rewards that training waits for, and conversations that never end."""

from __future__ import annotations

from oddities_of_libraries import GUESSING, PLAYED
from planted import planted

SLEEPING = """
import time


def grade(reply, answer):
    time.sleep(0.6)
    return float(final(reply) == answer)
"""
CORRECT_V0 = "def found(completion, answer, **_):\n    return float(f'<answer>{answer}</answer>' in str(completion))"
UNTIL_SOLVED = """

class UntilSolvedConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig()


class UntilSolvedEnv(vf.Env[UntilSolvedConfig]):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as player:
            said = await player.turn()
            while final(said.last_reply) != task.data.answer:
                said = await player.turn("Try again.")
"""

TIME = [
    planted("sleeping_reward", "RWD093 RWD095", SLEEPING, budget=40.0),
    planted("sleeping_reward", "RWD093 RWD095", SLEEPING, "v1", budget=40.0),
    planted(
        "only_success_ends_the_game",
        "RWD094",
        GUESSING,
        functions=CORRECT_V0,
        **{**PLAYED, "options": ""},
    ),
    planted("only_success_ends_the_loop", "RWD094", generation="v1", more=UNTIL_SOLVED),
]
