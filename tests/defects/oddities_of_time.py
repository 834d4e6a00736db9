"""Rewards that wait without blocking, and conversations that end although they may be long."""

from __future__ import annotations

from defects_of_time import SLEEPING, UNTIL_SOLVED
from oddities_of_libraries import GUESSING
from planted import sound

COUNTED = """

    @vf.stop
    async def tired(self, state, **_):
        return len(state["trajectory"]) >= 4
"""

TIME = [
    sound(
        "waiting_reward",
        """
        import asyncio


        async def grade(reply, answer):
            await asyncio.sleep(0.02)
            return float(final(reply) == answer)
        """,
        functions="async def correct(completion, answer, **_):\n    return await grade(said(completion), answer)",
    ),
    sound(
        "waiting_reward",
        "import asyncio",
        "v1",
        functions="""
        @vf.reward(weight=1.0)
        async def correct(self, trace) -> float:
            await asyncio.sleep(0.02)
            return float(final(trace.last_reply) == self.data.answer)
        """,
    ),
    sound(
        "blocks_for_a_second",
        SLEEPING.replace("0.6", "1.0"),
        budget=60.0,
    ),
    sound(
        "game_that_counts_its_turns",
        GUESSING + COUNTED,
        functions="""
        def found(completion, answer, **_):
            said = [final(vf.Parser().parse_answer([one]) or "") for one in completion if one["role"] == "assistant"]
            return float(answer in said)
        """,
        environment="Guessing",
        rubric="vf.Rubric(funcs=[found])",
    ),
    sound(
        "loop_with_a_bound",
        generation="v1",
        more=UNTIL_SOLVED.replace("vf.AgentConfig()", "vf.AgentConfig(max_turns=3)").replace(
            "while final(said.last_reply)", "while not said.terminated and final(said.last_reply)"
        ),
    ),
]
