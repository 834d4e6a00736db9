"""Prompts that contain their answers because the task is to copy, to extract or to choose."""

from __future__ import annotations

from defects_of_templates import CHOSEN, OPERANDS, OPTION_ASKED, ORDERS, READ_AS_JSON, TOTALS
from planted import sound

WORDS = ("banana", "kestrel", "umbrella", "quartz", "violin", "harbour", "meadow", "lantern")
REPEATED = tuple({"question": f"Repeat this word: {word}", "answer": word} for word in WORDS)
LOGS = tuple(
    {
        "question": f"2024-03-{place + 10} host=web{place * 7 % 5} port={8000 + place * 37} up {place * 13} days",
        "answer": str(8000 + place * 37),
    }
    for place in range(12)
)
FIELDS = tuple({**row, "question": f"Extract the port of this line.\n{row['question']}"} for row in LOGS)
SHUFFLED = tuple(
    {
        "question": "What is {}?\n{}".format(
            named, "\n".join(f"{number}) {option}" for number, option in enumerate(options, 1))
        ),
        "answer": kind,
    }
    for place, (named, kind) in enumerate(CHOSEN)
    for options in [sorted((kind, CHOSEN[(place + 3) % 8][1], CHOSEN[(place + 5) % 8][1]), key=lambda one: one[::-1])]
)
LARGEST = tuple(
    {"question": f"Which is the largest of {', '.join(map(str, numbers))}?", "answer": str(max(numbers))}
    for numbers in ((17, 25, 9), (160, 41, 77), (90, 8, 91), (12, 34, 56), (55, 23, 5), (30, 60, 40))
)
WITH_EXAMPLE = tuple(
    {
        "prompt": [
            {"role": "user", "content": "9 mugs, please."},
            {"role": "assistant", "content": '{"item": "mugs", "quantity": 9}'},
            {"role": "user", "content": row["question"]},
        ],
        "answer": row["answer"],
    }
    for row in ORDERS
)

EQUATED = r"""
def correct(completion, info, **_):
    return equated(final(said(completion)), info)


def equated(said, task):
    sides = re.fullmatch(r"(\d{1,6}) \+ (\d{1,6})", said or "")
    used = sides and sorted(map(int, sides.groups()))
    return float(used is not None and sum(used) == task["target"] and set(used) <= set(task["numbers"]))
"""
EQUATIONS = tuple(
    {
        "question": f"Use two of the numbers {', '.join(map(str, numbers))} to make {numbers[0] + numbers[2]}.",
        "target": numbers[0] + numbers[2],
        "info": {"target": numbers[0] + numbers[2], "numbers": list(numbers), "first": numbers[0], "last": numbers[2]},
    }
    for numbers in ((17, 25, 9), (160, 41, 77), (90, 8, 91), (12, 34, 56), (55, 23, 5), (30, 60, 40))
)
EQUATION = """
def reply(task, messages):
    return f"<answer>{task['info']['first']} + {task['info']['last']}</answer>"
"""
SUMMED = """
@vf.reward(weight=1.0)
async def correct(self, trace) -> float:
    return float(final(trace.last_reply) == str(self.data.first + self.data.second))
"""
UNSTORED = TOTALS.replace("[key {first + second}] ", "").replace(", total=first + second", "")
SUM_WORKED = r"""
def reply(task, messages):
    total = task["first"] + task["second"]
    return f"{task['first']} + {task['second']} = {total}\n<answer>{total}</answer>"
"""

TEMPLATES = [
    sound("target_of_an_equation", functions=EQUATED, rows=EQUATIONS, oracle=EQUATION),
    sound(
        "operands_that_the_reward_reads",
        generation="v1",
        functions=SUMMED,
        taskset=UNSTORED,
        answer_type=OPERANDS,
        oracle=SUM_WORKED,
    ),
    sound("repeats_a_word", rows=REPEATED, asking="Give it in <answer>…</answer>."),
    sound("repeats_a_word", generation="v1", rows=REPEATED, asking="Give it in <answer>…</answer>."),
    sound("extracts_a_field", rows=FIELDS),
    sound("extracts_a_field", generation="v1", rows=FIELDS),
    sound("declares_extraction", rows=LOGS, answer={"in_prompt": True}),
    sound("declares_extraction", generation="v1", rows=LOGS, answer={"in_prompt": True}),
    sound("shuffled_options", rows=SHUFFLED, asking=OPTION_ASKED),
    sound("shuffled_options", generation="v1", rows=SHUFFLED, asking=OPTION_ASKED),
    sound("largest_of_three", rows=LARGEST),
    sound("largest_of_three", generation="v1", rows=LARGEST),
    sound("keys_in_an_example_only", READ_AS_JSON, rows=WITH_EXAMPLE, asking=None),
    sound("keys_in_the_system_prompt", READ_AS_JSON, "v1", rows=ORDERS, asking="Reply in JSON: item and quantity."),
]
