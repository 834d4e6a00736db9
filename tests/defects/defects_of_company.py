"""Rewards of groups, and rewards given by a judge."""

from __future__ import annotations

from planted import planted

GROUPS = [
    planted(
        "deviation_from_the_group",
        "RWD030",
        functions="""
        def relative(completions, answers, **_):
            right = [float(final(said(one)) == answer) for one, answer in zip(completions, answers)]
            mean = sum(right) / len(right)
            return [(one - mean) / (mean * (1 - mean) + 1e-6) ** 0.5 for one in right]
        """,
        rubric="vf.Rubric(funcs=[relative], weights=[1.0])",
    ),
    planted(
        "place_in_the_group",
        "RWD070",
        functions="""
        def placed(completions, answers, **_):
            right = [float(final(said(one)) == answer) for one, answer in zip(completions, answers)]
            return [one / (1 + position) for position, one in enumerate(right)]
        """,
        rubric="vf.Rubric(funcs=[placed], weights=[1.0])",
    ),
]

JUDGE_V0 = """
from openai import AsyncOpenAI

JUDGE = vf.JudgeRubric(
    judge_client=AsyncOpenAI(api_key="none", base_url="https://judge.invalid/v1"), judge_prompt=PROMPT
)
"""
CORRECT_BY_JUDGE = """
async def correct(judge, prompt, completion, answer, state, **_):
    verdict = await judge(prompt, completion, answer, state)
    return float(verdict.strip().lower() == "yes")


JUDGE.add_reward_func(correct)
"""
OPEN_PROMPT = """
PROMPT = (
    "You grade answers. Question: {question}\\nReference: {answer}\\nThe student says: {response}\\n\\n"
    "Is that right? Say yes or no."
)
"""
CLIENT_V1 = """
from openai import AsyncOpenAI

CLIENT = AsyncOpenAI(api_key="none", base_url="https://judge.invalid/v1")


async def asked(prompt):
    said = await CLIENT.chat.completions.create(model="judge", messages=[{"role": "user", "content": prompt}])
    return said.choices[0].message.content
"""
JUDGES = [
    planted(
        "judge_reads_the_reply_as_its_own",
        "RWD079",
        OPEN_PROMPT + JUDGE_V0,
        functions=CORRECT_BY_JUDGE,
        rubric="JUDGE",
    ),
    planted(
        "judge_gives_points_to_plain_text",
        "RWD079",
        CLIENT_V1,
        "v1",
        functions=r"""
        @vf.reward(weight=1.0)
        async def correct(self, trace) -> float:
            prompt = f"Rate this answer on a scale of 0 to 10. It should say {self.data.answer}.\n\n{trace.last_reply}"
            return int(await asked(prompt)) / 10
        """,
    ),
]
