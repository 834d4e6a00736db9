"""The planted defects, one small environment each. Add a line here, or a table of your own to `DEFECTS`."""

from __future__ import annotations

from planted import SUMS, planted

REASONED = "Think in <think>…</think>, then give the number in <answer>…</answer>."
CAPITALS = tuple(
    {"question": f"What is the capital of {country}?", "answer": city}
    for country, city in (("France", "Paris"), ("Peru", "Lima"), ("Kenya", "Nairobi"), ("Norway", "Oslo"))
)
LISTS = tuple(
    {"question": f"Sort {shuffled}, ascending.", "answer": answer}
    for shuffled, answer in (("9 3 5", "3, 5, 9"), ("8 1 4", "1, 4, 8"), ("70 20 60", "20, 60, 70"))
)
CHOICES = tuple(
    {"question": f"Which is a {kind}?\nA) rose\nB) robin\nC) granite\nD) salmon", "answer": answer}
    for kind, answer in (("flower", "A"), ("bird", "B"), ("stone", "C"), ("fish", "D"))
)
COPIES = tuple(
    {"question": f"Repeat the word {word}.", "answer": word} for word in ("banana", "kestrel", "umbrella", "quartz")
)
GIVEN_AWAY = tuple({**row, "question": f"{row['question']} The answer is {row['answer']}."} for row in SUMS)
MANY = tuple(
    {"question": f"What is {number} plus 900?", "answer": f"{number + 900:,}" if number == 120 else str(number + 900)}
    for number in range(130)
)

ANSWERS = [
    planted("substring_match", "RWD008 RWD066", "def grade(reply, answer):\n    return float(answer in reply)"),
    planted(
        "substring_in_the_tag",
        "RWD008 RWD066",
        'def grade(reply, answer):\n    return float(answer in (final(reply) or ""))',
        "v1",
    ),
    planted(
        "first_number",
        "RWD066",
        r"""
        def grade(reply, answer):
            found = re.search(r"\d+", reply)
            return float(found is not None and found[0] == answer)
        """,
    ),
    planted(
        "last_number",
        "RWD066",
        r"""
        def grade(reply, answer):
            return float(re.findall(r"\d+", reply)[-1:] == [answer])
        """,
        "v1",
    ),
    planted("constant", "RWD004 RWD010", "def grade(reply, answer):\n    return 1.0"),
    planted(
        "always_wrong",
        "RWD001 RWD010",
        "def grade(reply, answer):\n    return float(final(reply) == int(answer))",
        "v1",
    ),
    planted(
        "off_by_one_accepted",
        "RWD005",
        """
        def grade(reply, answer):
            said = final(reply) or ""
            return float(said.isdecimal() and len(said) < 9 and abs(int(said) - int(answer)) <= 1)
        """,
    ),
    planted(
        "tolerance_too_wide",
        "RWD005",
        """
        def grade(reply, answer):
            try:
                said = float(final(reply) or "nan")
            except ValueError:
                return 0.0
            return float(abs(said - float(answer)) <= 0.1 * float(answer))
        """,
        "v1",
    ),
    planted(
        "sign_ignored",
        "RWD005",
        'def grade(reply, answer):\n    return float((final(reply) or "").lstrip("-") == answer)',
    ),
    planted(
        "case_of_gold_forgotten",
        "RWD001",
        'def grade(reply, answer):\n    return float((final(reply) or "").lower() == answer)',
        "v1",
        rows=CAPITALS,
        asking="Answer in <answer>…</answer>.",
    ),
    planted(
        "space_not_stripped",
        "RWD068",
        r"""
        def grade(reply, answer):
            return float(re.findall(r"<answer>([^<]*)</answer>", reply) == [answer])
        """,
    ),
    planted(
        "space_in_gold",
        "RWD001",
        "def grade(reply, answer):\n    return float(final(reply) == answer)",
        "v1",
        rows=tuple({**row, "answer": f" {row['answer']}"} for row in SUMS),
    ),
    planted(
        "any_of_several_tags",
        "RWD064",
        'def grade(reply, answer):\n    return float(answer in re.findall(r"<answer>([^<]*)</answer>", reply))',
    ),
    planted(
        "first_of_several_tags",
        "RWD065 RWD069",
        r"""
        def grade(reply, answer):
            found = re.search(r"<answer>\s*([^<]*?)\s*</answer>", reply)
            return float(found is not None and found[1] == answer)
        """,
        "v1",
    ),
    planted(
        "draft_in_think_tags",
        "RWD063",
        r"""
        def grade(reply, answer):
            return float(re.findall(r"<answer>([^<]*)</answer>", reply)[-1:] == [answer])
        """,
        asking=REASONED,
    ),
    planted(
        "cut_off_reasoning",
        "RWD063",
        r"""
        def grade(reply, answer):
            spoken = re.sub(r"<think>.*?</think>", "", reply, flags=re.DOTALL)
            return float(re.findall(r"<answer>([^<]*)</answer>", spoken) == [answer])
        """,
        "v1",
        asking=REASONED,
    ),
    planted(
        "first_tag_of_the_library",
        "RWD063",
        'PARSER = vf.XMLParser(["think", "answer"])',
        functions="def correct(completion, answer, **_):\n    return float(PARSER.parse_answer(completion) == answer)",
        asking=REASONED,
    ),
    planted(
        "prefix_of_the_answer",
        "RWD004",
        'def grade(reply, answer):\n    return float(answer.startswith(final(reply) or ""))',
        "v1",
    ),
    planted(
        "contained_in_the_answer",
        "RWD004",
        'def grade(reply, answer):\n    return float((final(reply) or "") in answer)',
    ),
    planted(
        "look_alikes_folded",
        "RWD062",
        """
        import unicodedata


        def grade(reply, answer):
            return float(unicodedata.normalize("NFKC", final(reply) or "") == answer)
        """,
    ),
    planted(
        "any_choice",
        "RWD005",
        'def grade(reply, answer):\n    return float((final(reply) or "?") in "ABCD")',
        "v1",
        rows=CHOICES,
        asking="Answer with the letter in <answer>…</answer>.",
    ),
    planted(
        "empty_set_is_right",
        "RWD004 RWD005",
        """
        def grade(reply, answer):
            given = {part.strip() for part in (final(reply) or "").split(",") if part.strip()}
            return float(given <= set(answer.split(", ")))
        """,
        rows=LISTS,
        asking="Answer in <answer>…</answer>.",
    ),
    planted(
        "list_compared_as_set",
        "RWD005",
        """
        def grade(reply, answer):
            return float(set((final(reply) or "").split(", ")) == set(answer.split(", ")))
        """,
        "v1",
        rows=LISTS,
        asking="Answer in <answer>…</answer>.",
    ),
    planted(
        "set_compared_as_list",
        "RWD067",
        "def grade(reply, answer):\n    return float(final(reply) == answer)",
        rows=LISTS,
        asking="Answer in <answer>…</answer>.",
        answer={"type": "set"},
    ),
    planted(
        "declared_tolerance_not_granted",
        "RWD067",
        "def grade(reply, answer):\n    return float(final(reply) == answer)",
        "v1",
        answer={"type": "number", "tolerance": 0.5},
    ),
    planted(
        "declared_case_not_granted",
        "RWD067",
        "def grade(reply, answer):\n    return float(final(reply) == answer)",
        rows=CAPITALS,
        asking="Answer in <answer>…</answer>.",
        answer={"case_sensitive": False},
    ),
    planted(
        "keys_of_json_only",
        "RWD005",
        """
        import json


        def grade(reply, answer):
            try:
                return float("answer" in json.loads(reply))
            except (ValueError, TypeError):
                return 0.0
        """,
        asking='Reply with a JSON object: {"answer": the number}.',
    ),
    planted(
        "text_is_truthy",
        "RWD005",
        "def grade(reply, answer):\n    return float(bool(final(reply)) is answer)",
        "v1",
        rows=({"question": "Is 7 prime?", "answer": True}, {"question": "Is 11 prime?", "answer": True}),
        answer_type="bool",
        asking="Answer true or false in <answer>…</answer>.",
    ),
    planted(
        "length_of_list_only",
        "RWD005",
        """
        import json


        def grade(reply, answer):
            try:
                return float(len(json.loads(final(reply) or "null")) == len(answer))
            except (ValueError, TypeError):
                return 0.0
        """,
        "v1",
        rows=({"question": "Sort 3 1 2.", "answer": [1, 2, 3]}, {"question": "Sort 9 8.", "answer": [8, 9]}),
        answer_type="list[int]",
        asking="Answer with a JSON list in <answer>…</answer>.",
    ),
    planted(
        "copying_pays",
        "RWD007",
        "def grade(reply, answer):\n    return float(answer in reply)",
        rows=COPIES,
        asking="Answer in <answer>…</answer>.",
    ),
    planted(
        "reported_score_believed",
        "RWD009",
        r"""
        def grade(reply, answer):
            claimed = re.search(r"score (\d\.\d)", reply)
            return float(claimed[1]) if claimed else float(final(reply) == answer)
        """,
        "v1",
    ),
    planted(
        "answer_in_the_prompt",
        "SCH055",
        "def grade(reply, answer):\n    return float(final(reply) == answer)",
        rows=GIVEN_AWAY,
    ),
    planted(
        "odd_task_further_on",
        "RWD060",
        "def grade(reply, answer):\n    return float((final(reply) or '').replace(',', '') == answer)",
        rows=MANY,
    ),
]

NUMBERS = [
    planted(
        "raises_on_empty",
        "RWD020",
        r"""
        def grade(reply, answer):
            return float(re.search(r"<answer>([^<]*)</answer>", reply)[1] == answer)
        """,
    ),
    planted(
        "raises_on_words",
        "RWD020",
        "def grade(reply, answer):\n    return float(int(final(reply) or 0) == int(answer))",
        "v1",
    ),
    planted(
        "raises_on_superscripts",
        "RWD020",
        """
        def grade(reply, answer):
            said = final(reply) or ""
            return float(said.isdigit() and len(said) < 9 and int(said) == int(answer))
        """,
    ),
    planted(
        "raises_on_long_numbers",
        "RWD020",
        """
        def grade(reply, answer):
            said = final(reply) or ""
            return float(said.isdecimal() and int(said) == int(answer))
        """,
        "v1",
    ),
    planted(
        "not_a_number",
        "RWD021",
        """
        def grade(reply, answer):
            said = final(reply)
            return float("nan") if said is None else float(said == answer)
        """,
        "v1",
    ),
    planted("none", "RWD022", "def grade(reply, answer):\n    if final(reply) == answer:\n        return 1.0"),
    planted(
        "text_for_a_number",
        "RWD022",
        'def grade(reply, answer):\n    return "1" if final(reply) == answer else 0.0',
        "v1",
    ),
    planted("above_the_maximum", "RWD030", "def grade(reply, answer):\n    return 2.0 * (final(reply) == answer)"),
    planted(
        "below_the_minimum",
        "RWD030",
        "def grade(reply, answer):\n    return 1.0 if final(reply) == answer else -1.0",
        "v1",
    ),
    planted(
        "hangs_on_silence",
        "RWD023",
        """
        import time


        def grade(reply, answer):
            while not reply.strip():
                time.sleep(0.05)
            return float(final(reply) == answer)
        """,
        rows=SUMS[:2],
    ),
    planted(
        "form_pays_too_much",
        "RWD006",
        """
        def grade(reply, answer):
            return float(final(reply) == answer)
        """,
        functions="""
        def correct(completion, answer, **_):
            return grade(said(completion), answer)


        def tidy(completion, **_):
            return float(final(said(completion)) is not None)
        """,
        rubric="vf.Rubric(funcs=[correct, tidy], weights=[0.5, 0.5])",
    ),
    planted(
        "length_pays",
        "RWD061",
        "def grade(reply, answer):\n    return max(float(final(reply) == answer), min(len(reply) / 1e5, 0.5))",
        "v1",
    ),
    planted(
        "penalty_never_comes",
        "RWD053",
        "def grade(reply, answer):\n    return float(final(reply) == answer)",
        functions="""
        def correct(completion, answer, **_):
            return grade(said(completion), answer)


        def rambling(completion, **_):
            return float(len(said(completion)) < 0)
        """,
        rubric="vf.Rubric(funcs=[correct, rambling], weights=[1.0, -0.5])",
    ),
    planted(
        "metric_missing_at_times",
        "RWD078",
        "",
        "v1",
        functions="""
        @vf.reward(weight=1.0)
        async def correct(self, trace) -> float:
            return float(final(trace.last_reply) == self.data.answer)

        @vf.metric
        async def size(self, trace) -> dict[str, float]:
            return {"size": float(len(final(trace.last_reply)))} if final(trace.last_reply) else {}
        """,
    ),
    planted(
        "plain_function_for_a_coroutine",
        "RWD020",
        "",
        "v1",
        functions="""
        @vf.reward(weight=1.0)
        def correct(self, trace) -> float:
            return float(final(trace.last_reply) == self.data.answer)
        """,
    ),
]

CIRCUMSTANCES = [
    planted(
        "chance",
        "RWD031 RWD075",
        """
        import random


        def grade(reply, answer):
            return float(final(reply) == answer) * (1 - random.random() / 10)
        """,
    ),
    planted(
        "generator_without_a_seed",
        "RWD075",
        """
        import random


        def grade(reply, answer):
            return float(final(reply) == answer and random.Random().random() < 2)
        """,
        "v1",
    ),
    planted(
        "year_of_the_clock",
        "RWD074",
        """
        from datetime import datetime


        def grade(reply, answer):
            return float(final(reply) == answer and datetime.now().year > 2000)
        """,
    ),
    planted(
        "seconds_of_the_clock",
        "RWD074",
        """
        import time


        def grade(reply, answer):
            return float(final(reply) == answer) * (0.5 + (time.time() > 0) / 2)
        """,
        "v1",
    ),
    planted(
        "order_of_a_set",
        "RWD071",
        """
        WORDS = list({f"word {number}" for number in range(40)})


        def grade(reply, answer):
            return float(final(reply) == answer) * (1 - WORDS.index("word 3") / 100)
        """,
    ),
    planted(
        "hash_of_text",
        "RWD071",
        "def grade(reply, answer):\n    return float(final(reply) == answer) * (1 - hash(reply) % 1000 / 1e4)",
        "v1",
    ),
    planted(
        "global_counter",
        "RWD070",
        """
        CALLS = 0


        def grade(reply, answer):
            global CALLS
            CALLS += 1
            return float(final(reply) == answer and CALLS < 150)
        """,
    ),
    planted(
        "every_other_call",
        "RWD031",
        """
        CALLS = []


        def grade(reply, answer):
            CALLS.append(reply)
            return float(final(reply) == answer and len(CALLS) % 2)
        """,
        "v1",
    ),
    planted(
        "novelty_is_remembered",
        "RWD031",
        """
        SEEN = set()


        def grade(reply, answer):
            new = reply not in SEEN
            SEEN.add(reply)
            return float(final(reply) == answer and new)
        """,
    ),
    planted(
        "cache_without_the_reply",
        "RWD070",
        """
        CACHE = {}


        def grade(reply, answer):
            return CACHE.setdefault(answer, float(final(reply) == answer))
        """,
        "v1",
    ),
    planted(
        "mutable_default",
        "RWD070",
        """
        def grade(reply, answer, seen=[]):
            seen.append(reply)
            return float(final(reply) == answer) / (1 + (len(seen) > 150))
        """,
    ),
    planted(
        "shared_between_coroutines",
        "RWD072",
        "import asyncio\n\nCURRENT = {}",
        "v1",
        functions="""
        @vf.reward(weight=1.0)
        async def correct(self, trace) -> float:
            CURRENT["reply"] = trace.last_reply
            await asyncio.sleep(0)
            return float(final(CURRENT["reply"]) == self.data.answer)
        """,
    ),
    planted(
        "quadratic_expression",
        "RWD073",
        r"""
        def grade(reply, answer):
            return float(final(re.sub(r"\s+$", "", reply)) == answer)
        """,
    ),
    planted(
        "exponential_expression",
        "RWD073",
        r"""
        def grade(reply, answer):
            found = re.search(r"<answer>((?:\w+\s?)+)</answer>", reply)
            return float(found is not None and final(reply) == answer)
        """,
        "v1",
    ),
    planted(
        "quadratic_loop",
        "RWD073",
        """
        def grade(reply, answer):
            blank = sum(reply.count(" ", 0, position) for position in range(len(reply)))
            return float(final(reply) == answer and blank == 0)
        """,
        "v1",
    ),
    planted(
        "file_elsewhere",
        "RWD076",
        """
        def grade(reply, answer):
            with open("/etc/passwd") as file:
                return float(final(reply) == answer and bool(file.read(1)))
        """,
    ),
    planted(
        "undeclared_variable",
        "RWD077",
        """
        import os


        def grade(reply, answer):
            return float(final(reply) == answer) * float(os.environ.get("STRICTNESS", "1"))
        """,
        "v1",
    ),
    planted(
        "network",
        "RWD026",
        """
        import socket


        def grade(reply, answer):
            try:
                socket.create_connection(("198.51.100.7", 80), timeout=0.1).close()
            except OSError:
                pass
            return float(final(reply) == answer)
        """,
    ),
]

GROUPS = [
    planted(
        "deviation_from_the_group",
        "RWD030",
        "",
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
        "",
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

DEFECTS = [*ANSWERS, *NUMBERS, *CIRCUMSTANCES, *GROUPS, *JUDGES]
