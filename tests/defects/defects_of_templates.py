"""Prompts whose template holds the answer, in words that no other rule looks for."""

from __future__ import annotations

from planted import ASKING, PARSED, SUMS, planted

MARKED = tuple({**row, "question": f"{row['question']} [ref {row['answer']}]"} for row in SUMS)
NUMBERED = tuple(
    {**row, "question": f"Item {number} (id s-{row['answer']}): {row['question']}"} for number, row in enumerate(SUMS)
)
COMMENTED = tuple({**row, "question": f"{row['question']}\n<!-- {row['answer']} -->"} for row in SUMS)
SESSIONS = tuple(
    {
        "prompt": [
            {"role": "system", "content": f"Session {row['answer']}. {ASKING}"},
            {"role": "user", "content": row["question"]},
        ],
        "answer": row["answer"],
    }
    for row in SUMS
)
CHOSEN = (
    ("tea", "a drink"),
    ("oak", "a tree"),
    ("wren", "a bird"),
    ("cod", "a fish"),
    ("ruby", "a stone"),
    ("rye", "a grain"),
    ("lute", "an instrument"),
    ("mars", "a planet"),
)
FIRST_OPTION = tuple(
    {
        "question": f"What is {named}?\n1) {kind}\n2) {CHOSEN[(place + 3) % 8][1]}\n3) {CHOSEN[(place + 5) % 8][1]}",
        "answer": kind,
    }
    for place, (named, kind) in enumerate(CHOSEN)
)
OPTION_ASKED = "Write the right option in <answer>…</answer>."
READ_AS_JSON = f"{PARSED}def grade(reply, answer):\n    return float(parsed(reply) == parsed(answer))"
ORDERS = tuple(
    {"question": f"{count} {what}, please.", "answer": f'{{"item": "{what}", "quantity": {count}}}'}
    for what, count in (("pens", 3), ("cups", 12), ("maps", 7), ("jars", 20), ("rugs", 2))
)
CALLS = tuple(
    {
        "question": f"What is the weather in {city}?",
        "answer": f'{{"tool": "get_forecast", "arguments": {{"town": "{city}"}}}}',
    }
    for city in ("Rome", "Lima", "Oslo", "Bonn", "Kyiv")
)

COUNTED = """
def correct(completion, info, **_):
    return float(final(said(completion)) == str(info["count"]))
"""
COUNTS = tuple(
    {
        "prompt": [
            {"role": "system", "content": f'You are a tutor. Session: {{"count": {row["answer"]}}}. {ASKING}'},
            {"role": "user", "content": row["question"]},
        ],
        "info": {"count": int(row["answer"])},
    }
    for row in SUMS
)
COUNTS_REPLIED = """
def reply(task, messages):
    return f"<answer>{task['info']['count']}</answer>"
"""
TOTALS = """
def load(self):
    rows = [(first, second) for first, second in ((17, 25), (160, 41), (90, 8), (1200, 34), (55, 23), (30, 6))]
    return [Task(Data(prompt=f"What is {first} plus {second}? [key {first + second}] Show your work.",
                      first=first, second=second, total=first + second), self.config.task) for first, second in rows]
"""
READS_TOTAL = """
@vf.reward(weight=1.0)
async def correct(self, trace) -> float:
    return float(final(trace.last_reply) == str(self.data.total))
"""
WORKED = r"""
def reply(task, messages):
    return f"{task['first']} + {task['second']} = {task['total']}\n<answer>{task['total']}</answer>"
"""
OPERANDS = "str = ''\n    first: int = 0\n    second: int = 0\n    total: int = 0"

TEMPLATES = [
    planted(
        "unnamed_answer_in_the_system_prompt",
        "SCH058",
        functions=COUNTED,
        rows=COUNTS,
        asking=None,
        oracle=COUNTS_REPLIED,
    ),
    planted(
        "unnamed_answer_in_brackets",
        "SCH058",
        generation="v1",
        functions=READS_TOTAL,
        taskset=TOTALS,
        answer_type=OPERANDS,
        oracle=WORKED,
    ),
    planted("reference_in_brackets", "SCH058", rows=MARKED),
    planted("reference_in_brackets", "SCH058", generation="v1", rows=MARKED),
    planted("answer_as_identifier", "SCH058", rows=NUMBERED),
    planted("answer_in_a_comment", "SCH058", generation="v1", rows=COMMENTED),
    planted("answer_in_the_system_prompt", "SCH058", rows=SESSIONS, asking=None),
    planted(
        "answer_in_the_system_prompt",
        "SCH058",
        generation="v1",
        taskset="""
        def load(self):
            rows = [(first, second) for first, second in ((17, 25), (160, 41), (90, 8), (1200, 34), (55, 23), (30, 6))]
            return [Task(Data(prompt=f"What is {first} plus {second}?", answer=str(first + second),
                              system_prompt=f"Tutor no. {first + second}. Give the number in <answer>…</answer>."),
                         self.config.task) for first, second in rows]
        """,
    ),
    planted("right_option_is_the_first", "SCH058", rows=FIRST_OPTION, asking=OPTION_ASKED),
    planted("right_option_is_the_first", "SCH058", generation="v1", rows=FIRST_OPTION, asking=OPTION_ASKED),
    planted("keys_that_no_prompt_names", "RWD097", READ_AS_JSON, rows=ORDERS, asking="Reply with one JSON object."),
    planted("keys_that_no_prompt_names", "RWD097", READ_AS_JSON, "v1", rows=ORDERS, asking="Reply in JSON."),
    planted("tool_that_no_prompt_names", "RWD097", READ_AS_JSON, rows=CALLS, asking="Call a tool."),
    planted("tool_that_no_prompt_names", "RWD097", READ_AS_JSON, "v1", rows=CALLS, asking=None),
]
