"""Defects in rarer rewards: sets with other answers, unanchored patterns, dates, units, tasks without an end."""

from __future__ import annotations

from planted import ASKING, SUMS, planted, several

LENGTHS = tuple(
    {"question": f"Add {first} and {second}.", "answer": answer}
    for first, second, answer in (("2 km", "3 km", "5 km"), ("10 cm", "7 cm", "17 cm"), ("8 kg", "4 kg", "12 kg"))
)
DATES = tuple(
    {"question": f"Which day follows {before}?", "answer": after}
    for before, after in (
        ("2024-02-28", "2024-02-29"),
        ("2023-12-31", "2024-01-01"),
        ("2022-06-30", "2022-07-01"),
        ("2021-09-09", "2021-09-10"),
    )
)
ORDERED = """
words = list({f"word {number}" for number in range(40)})
for trace in episode.traces:
    right = float(final(trace.last_reply) == task.data.answer)
    trace.record_reward("solved", right * (1 - words.index("word 3") / 100))
"""
SHOWN = tuple(
    {
        "prompt": [
            {"role": "user", "content": f"The sum of 2 and 3? In <answer>…</answer>. The key says {row['answer']}."},
            {"role": "assistant", "content": "<answer>5</answer>"},
            {"role": "user", "content": f"{row['question']} In <answer>…</answer>."},
        ],
        "answer": row["answer"],
    }
    for row in SUMS
)

SHAPES = [
    planted(
        "group_in_the_order_of_a_set",
        "RWD071",
        functions="""
        def spread(completions, answers, **_):
            place = list({f"{said(one)} {number}" for one in completions for number in range(40)})
            share = place.index(f"{said(completions[0])} 3") / len(place) / 10
            return [float(final(said(one)) == answer) * (1 - share) for one, answer in zip(completions, answers)]
        """,
        rubric="vf.Rubric(funcs=[spread], weights=[1.0])",
    ),
    planted("episode_in_the_order_of_a_set", "RWD071", generation="v1", functions="pass", more=several(2, ORDERED)),
    planted(
        "game_in_the_order_of_a_set",
        "RWD071",
        """
        class Asking(vf.MultiTurnEnv):
            async def env_response(self, messages, state, **_):
                return [{"role": "user", "content": "Are you sure?"}]
        """,
        functions="""
        def found(completion, answer, **_):
            words = list({f"word {number}" for number in range(40)})
            last = [one["content"] for one in completion if one["role"] == "assistant"][-1]
            return float(final(last) == answer) * (1 - words.index("word 3") / 100)
        """,
        environment="Asking",
        options="max_turns=2",
        rubric="vf.Rubric(funcs=[found])",
    ),
    planted(
        "silence_is_not_punished",
        "RWD004",
        """
        def grade(reply, answer):
            said = final(reply)
            return 0.5 if not reply else 1.0 if said == answer else -1.0
        """,
        "v1",
        reward={"min": -1.0},
    ),
    planted(
        "almost_is_all_of_ten",
        "RWD005",
        """
        def grade(reply, answer):
            said = final(reply) or ""
            return float(round(10 - abs(int(said) - int(answer)) / 4)) if said.isdecimal() and len(said) < 6 else 0.0
        """,
        reward={"max": 10.0, "min": -100000.0},
    ),
    planted(
        "only_half_of_the_pattern_is_bound",
        "RWD005",
        r"""
        def grade(reply, answer):
            return float(re.search(rf"^{re.escape(answer)}|{re.escape(answer)}$", final(reply) or "") is not None)
        """,
    ),
    planted(
        "anything_but_no",
        "RWD004",
        """
        def grade(reply, answer):
            return float((final(reply) != "no") == (answer == "yes"))
        """,
        "v1",
        rows=tuple(
            {"question": f"Is {number} even?", "answer": "no" if number % 2 else "yes"} for number in (4, 6, 8, 9, 10)
        ),
        asking="Answer yes or no in <answer>…</answer>.",
    ),
    planted(
        "prompt_is_read_as_the_reply",
        "RWD004",
        functions="""
        def correct(prompt, completion, answer, **_):
            return float(any(answer in str(one["content"]) for one in [*prompt, *completion]))
        """,
        rows=SHOWN,
        asking=None,
    ),
    planted(
        "infinite_and_wrong_further_on",
        "RWD060",
        "def grade(reply, answer):\n    return float(final(reply) == answer.replace(',', ''))",
        "v1",
        taskset=f"""
        INFINITE = True

        def load(self):
            number = 0
            while True:
                number += 1
                asked = f"What is {{number}} plus 880? {ASKING}"
                yield Task(Data(prompt=asked, answer=f"{{number + 880:,}}"), self.config.task)
        """,
    ),
    planted(
        "tools_count_as_answers",
        "RWD004",
        """
        def look_up(name: str) -> str:
            \"\"\"Look a name up.\"\"\"
            return name


        def grade(reply, answer):
            return float(final(reply) in (answer, None))
        """,
        environment="vf.ToolEnv",
        options="tools=[look_up],\nmax_turns=4",
    ),
    planted(
        "nearer_than_near_is_more_than_all",
        "RWD030",
        r"""
        def grade(reply, answer):
            said = final(reply) or ""
            if not re.fullmatch(r"-?[0-9]{1,9}(?:[.][0-9]{1,9})?", said, re.ASCII):
                return 0.0
            return 1.0 if float(said) == float(answer) else 0.9 / abs(float(said) - float(answer))
        """,
        "v1",
    ),
    planted(
        "only_the_year_counts",
        "RWD005",
        "def grade(reply, answer):\n    return float((final(reply) or '')[:4] == answer[:4])",
        "v1",
        rows=DATES,
        asking="Give the date in <answer>…</answer>.",
    ),
    planted(
        "units_do_not_count",
        "RWD005",
        "def grade(reply, answer):\n    return float((final(reply) or '').split(' ')[0] == answer.split(' ')[0])",
        rows=LENGTHS,
        asking="Give the sum with its unit in <answer>…</answer>.",
    ),
    planted(
        "points_are_dropped",
        "RWD005",
        """
        def grade(reply, answer):
            return float((final(reply) or "").replace(".", "").strip("0") == answer.strip("0"))
        """,
    ),
]
