"""Multi-turn environments that pay for something other than the answer."""

from __future__ import annotations

from defects_of_company import CLIENT_V1, CORRECT_BY_JUDGE, JUDGE_V0, OPEN_PROMPT
from oddities_of_libraries import CALLED, GUESSING, NAMED, PLAYED, TOOLS
from planted import planted, several

SOLVED_ONCE = """
solved = max(float(final(trace.last_reply) == task.data.answer) for trace in episode.traces)
for trace in episode.traces:
    trace.record_reward("solved", solved)
"""
BROKEN_TOOL = '''
def add(first: int, second: int) -> str:
    """Add two numbers."""
    return str((first + second) / 0)
'''
EMPTY_TOOL = '''
def look_up(name: str) -> str:
    """What a name stands for."""
    return f"no such item: {name}"
'''
TOOLSET = '''
class Calculator(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "calculator"

    @vf.tool
    def add(self, first: int, second: int) -> str:
        """Add two numbers."""
        return str({returned})


if __name__ == "__main__":
    Calculator.run()
'''
WITH_TOOLSET = """
@classmethod
def toolsets(cls, config):
    return [Calculator(vf.SharedToolsetConfig())]

def load(self):
    rows = [(17, 25), (160, 41), (90, 8), (1200, 34), (55, 23), (301, 406)]
    return [Task(Data(prompt=f"What is {first} plus {second}? Give the number in <answer>…</answer>.",
                      answer=str(first + second)), self.config.task) for first, second in rows]
"""
TOOLED = {"environment": "vf.ToolEnv"}

CONVERSATIONS = [
    planted(
        "oracle_calls_a_tool_wrongly",
        "RWD003",
        TOOLS,
        **{**CALLED, "oracle": 'def reply(task, messages):\n    return {"tool_calls": [{"tool": "look_up"}]}\n'},
    ),
    planted("tool_that_divides_by_zero", "RWD098 RWD099", BROKEN_TOOL, options="tools=[add],\nmax_turns=4", **TOOLED),
    planted("tool_that_finds_nothing", "RWD099", EMPTY_TOOL, options="tools=[look_up],\nmax_turns=4", **TOOLED),
    planted(
        "tool_that_divides_by_zero",
        "RWD098 RWD099",
        TOOLSET.format(returned="(first + second) / 0"),
        "v1",
        taskset=WITH_TOOLSET,
    ),
    planted(
        "tool_that_finds_nothing",
        "RWD099",
        TOOLSET.format(returned="'no such sum'"),
        "v1",
        taskset=WITH_TOOLSET,
    ),
    planted(
        "praise_is_believed",
        "RWD085",
        GUESSING,
        functions="""
        def found(completion, answer, **_):
            text = " ".join(str(one["content"]) for one in completion)
            return float("You found it" in text or f"<answer>{answer}</answer>" in text)
        """,
        **PLAYED,
    ),
    planted(
        "turns_pay",
        "RWD004",
        GUESSING,
        functions="""
        def found(completion, answer, **_):
            right = f"<answer>{answer}</answer>" in str(completion)
            return 1.0 if right else min(0.9, sum(one["role"] == "assistant" for one in completion) / 4)
        """,
        **PLAYED,
    ),
    planted(
        "any_turn_counts",
        "RWD005",
        GUESSING,
        functions="def found(completion, **_):\n    return float(len(completion) > 1 or 'answer' in str(completion))",
        **PLAYED,
    ),
    planted(
        "shared_by_all_games",
        "RWD031",
        GUESSING.replace(
            'said = final(vf.Parser().parse_answer(messages) or "")',
            'said = self.__class__.last = final(vf.Parser().parse_answer(messages) or "")',
        ).replace("class Guessing(vf.MultiTurnEnv):", "class Guessing(vf.MultiTurnEnv):\n    games = 0\n"),
        functions="""
        def found(completion, answer, **_):
            Guessing.games += 1
            return float(f"<answer>{answer}</answer>" in str(completion)) * (1 - Guessing.games % 7 / 10)
        """,
        **PLAYED,
    ),
    planted(
        "calling_is_enough",
        "RWD005",
        TOOLS,
        functions="def correct(completion, **_):\n    return float(any(one['role'] == 'tool' for one in completion))",
        **CALLED,
    ),
    planted(
        "answer_in_a_tools_words",
        "RWD005",
        TOOLS + '\n\ndef total(first: str, second: str) -> str:\n    """Add by name."""\n'
        "    return add(int(look_up(first)), int(look_up(second)))\n",
        functions="def correct(completion, answer, **_):\n    return float(answer in str(completion))",
        environment="vf.ToolEnv",
        options="tools=[total],\nmax_turns=6",
        rows=NAMED,
        oracle="""
import json
import re


def reply(task, messages):
    first, second = re.findall(r"\\b([a-d])\\b plus ([a-d])\\b", task["question"])[0]
    answers = [message["content"] for message in messages if message["role"] == "tool"]
    if not answers:
        function = {"name": "total", "arguments": json.dumps({"first": first, "second": second})}
        calls = [{"id": "1", "type": "function", "function": function}]
        return {"role": "assistant", "content": "", "tool_calls": calls}
    return f"<answer>{answers[0]}</answer>"
""",
    ),
    planted(
        "tools_wrongly_forbidden",
        "RWD001",
        TOOLS,
        functions="""
        def correct(completion, answer, **_):
            return float(final(said(completion)) == answer and not any(one["role"] == "tool" for one in completion))
        """,
        **CALLED,
    ),
    planted(
        "one_for_all",
        "RWD005",
        functions="""
        def best(completions, answers, **_):
            return [max(float(final(said(one)) == answer) for one, answer in zip(completions, answers))] * len(answers)
        """,
        rubric="vf.Rubric(funcs=[best], weights=[1.0])",
    ),
    planted(
        "rank_by_length",
        "RWD061",
        functions="""
        def ranked(completions, answers, **_):
            longest = sorted((len(said(one)) for one in completions), reverse=True)
            return [1.0 - longest.index(len(said(one))) / len(longest) for one in completions]
        """,
        rubric="vf.Rubric(funcs=[ranked], weights=[1.0])",
    ),
    planted(
        "judge_of_a_game_obeys",
        "RWD079",
        GUESSING + OPEN_PROMPT + JUDGE_V0,
        functions=CORRECT_BY_JUDGE,
        environment="Guessing",
        options="max_turns=4",
        rubric="JUDGE",
    ),
    planted(
        "one_for_all",
        "RWD005",
        generation="v1",
        functions="""
        @vf.metric
        async def size(self, trace) -> float:
            return float(len(trace.last_reply))
        """,
        more=several(3, SOLVED_ONCE),
    ),
    planted(
        "judge_that_is_not_understood_pays",
        "RWD079",
        CLIENT_V1,
        "v1",
        functions=r"""
        @vf.reward(weight=1.0)
        async def correct(self, trace) -> float:
            shown = f"<reply>\n{trace.last_reply}\n</reply>"
            verdict = await asked(f"Score from 1 to 5. Reference: {self.data.answer}\n{shown}")
            return (int(verdict) - 1) / 4 if verdict.strip().isdigit() else 1.0
        """,
    ),
]
