"""Sound environments of rarer shapes: sets in whatever order, other notations, games that pay less with time."""

from __future__ import annotations

from defects_of_company import CORRECT_BY_JUDGE, JUDGE_V0
from planted import IN_TAGS, SUMS, asked, several, sound
from questions import CAPITALS

RIGHT = "def grade(reply, answer):\n    return float(final(reply) == answer)"
PICTURES = tuple(
    {"question": f"Which emoji shows a {name}?", "answer": picture}
    for name, picture in (("rocket", "🚀"), ("family", "👨‍👩‍👧"), ("flag of Norway", "🇳🇴"), ("thumb up", "👍🏽"))
)
FRACTIONS = asked("What is {}?", {"1/2 + 1/4": "3/4", "1/3 + 1/3": "2/3", "1/8 + 1/2": "5/8", "2/5 - 1/5": "1/5"})
ROMAN = asked("Write {} in Roman numerals.", {"9": "IX", "14": "XIV", "40": "XL", "1999": "MCMXCIX"})
VERSES = tuple(
    {"question": f"Write down line by line: {first} / {second}", "answer": f"{first}\n{second}"}
    for first, second in (("The sea is wide", "and I am here"), ("Old stones", "new moss"), ("Rain", "then light"))
)
ODD_ONES = asked(
    "Which word does not belong: {}?",
    {"oak, elm, trout, birch": "trout", "red, blue, seven, green": "seven", "iron, tin, wool, zinc": "wool"},
)
QUOTING = """
PROMPT = (
    "You grade answers. Question: {question}\\nReference: {answer}\\n<response>\\n{response}\\n</response>\\n\\n"
    "Is that right? Say yes or no."
)
"""

SHAPES = [
    sound("roman_numerals", generation="v1", rows=ROMAN, asking=IN_TAGS),
    sound(
        "different_replies_of_the_group",
        beside="""
        def variety(completions, **_):
            replies = {said(one) for one in completions}
            return [len(replies) / len(completions)] * len(completions)
        """,
        rubric="vf.Rubric(funcs=[correct, variety], weights=[1.0, 0.0])",
    ),
    sound(
        "words_of_an_episode_in_order",
        generation="v1",
        more=several(
            2,
            """
                words = {word for trace in episode.traces for word in trace.last_reply.split()}
                for trace in episode.traces:
                    trace.record_metric("words", float(len(sorted(words))))
            """,
        ),
    ),
    sound(
        "later_is_less",
        """
        class Hinting(vf.MultiTurnEnv):
            async def env_response(self, messages, state, **_):
                return [{"role": "user", "content": f"No. It ends with {state['answer'][-1]}."}]

            @vf.stop
            async def answered(self, state, **_):
                turns = state.get("trajectory") or []
                return bool(turns) and final(vf.Parser().parse_answer(turns[-1]["completion"]) or "") == state["answer"]
        """,
        functions="""
        def quick(completion, answer, **_):
            said = [one["content"] for one in completion if one["role"] == "assistant"]
            return 1.1 - 0.1 * len(said) if said and final(said[-1]) == answer else -0.5
        """,
        environment="Hinting",
        options="max_turns=3",
        rubric="vf.Rubric(funcs=[quick])",
        reward={"min": -0.5, "max": 1.0},
    ),
    sound(
        "fractions_or_decimals",
        r"""
        from fractions import Fraction


        def grade(reply, answer):
            said = final(reply) or ""
            if not re.fullmatch(r"-?[0-9]{1,6}(?:/[1-9][0-9]{0,5}|[.][0-9]{1,6})?", said, re.ASCII):
                return 0.0
            return float(Fraction(said) == Fraction(answer))
        """,
        rows=FRACTIONS,
        asking="Give a fraction or a decimal in <answer>…</answer>.",
    ),
    sound(
        "answers_of_several_lines",
        """
        def grade(reply, answer):
            said = final(reply)
            lines = [line.strip() for line in said.splitlines() if line.strip()] if said else []
            return float(lines == answer.splitlines())
        """,
        rows=VERSES,
        asking=IN_TAGS,
    ),
    sound("odd_one_out", rows=ODD_ONES, asking=IN_TAGS),
    sound(
        "judge_below_zero",
        QUOTING + JUDGE_V0,
        functions=CORRECT_BY_JUDGE.replace(
            'return float(verdict.strip().lower() == "yes")', 'return 2.0 if verdict.strip().lower() == "yes" else -2.0'
        ),
        rubric="JUDGE",
        rows=CAPITALS,
        asking=IN_TAGS,
        reward={"min": -2.0, "max": 2.0},
    ),
    sound(
        "infinite_choices",
        generation="v1",
        taskset="""
        INFINITE = True

        def load(self):
            number = 0
            while True:
                number += 1
                words = ["north", "south", "east", "west"]
                right = words[number % 4]
                listed = "\\n".join(f"{letter}) {word}" for letter, word in zip("ABCD", words))
                asked = f"Case {number}: which is {right}?\\n{listed}\\nAnswer with the letter in <answer>…</answer>."
                yield Task(Data(prompt=asked, answer="ABCD"[number % 4]), self.config.task)
        """,
    ),
    sound("answers_in_pictures", RIGHT, "v1", rows=PICTURES, asking=IN_TAGS),
    sound(
        "error_of_many_orders",
        r"""
        import math


        def grade(reply, answer):
            said = final(reply) or ""
            if not re.fullmatch(r"-?[0-9]{1,12}(?:[.][0-9]{1,6})?", said, re.ASCII):
                return -100.0
            return max(-100.0, -10.0 * math.log10(1 + abs(float(said) - float(answer))))
        """,
        rows=SUMS,
        reward={"min": -100.0, "max": 0.0},
    ),
]
