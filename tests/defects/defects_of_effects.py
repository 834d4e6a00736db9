"""Rewards that change, or depend on, state outside of the reply."""

from __future__ import annotations

from planted import planted

RIGHT = "float(final(reply) == answer)"

EFFECTS = [
    planted(
        "empties_the_answer",
        "RWD031",
        generation="v1",
        functions="""
        @vf.reward(weight=1.0)
        async def correct(self, trace) -> float:
            wanted = self.data.answer.pop() if self.data.answer else None
            return float(final(trace.last_reply) == wanted)
        """,
        rows=(
            {"question": "One word: the sky is?", "answer": ["blue"]},
            {"question": "Grass is?", "answer": ["green"]},
        ),
        answer_type="list[str]",
        oracle="def reply(task, messages):\n    return f\"<answer>{task['answer'][0]}</answer>\"\n",
    ),
    planted(
        "rewrites_the_conversation",
        "RWD001",
        functions="""
        def brief(completion, **_):
            completion[-1]["content"] = completion[-1]["content"][:4]
            return 0.0


        def correct(completion, answer, **_):
            return float(final(said(completion)) == answer)
        """,
        rubric="vf.Rubric(funcs=[brief, correct], weights=[0.0, 1.0])",
    ),
    planted(
        "secrets",
        "RWD075",
        f"""
        import secrets


        def grade(reply, answer):
            return {RIGHT} * (1 - secrets.randbelow(3) / 1000)
        """,
        "v1",
    ),
    planted(
        "chance_of_numpy",
        "RWD075",
        f"""
        import numpy as np


        def grade(reply, answer):
            return {RIGHT} * float(np.random.rand() < 2)
        """,
        "v1",
    ),
    planted(
        "log_in_the_home_folder",
        "RWD076",
        f"""
        from pathlib import Path


        def grade(reply, answer):
            try:
                with open(Path("/var/tmp/suite-of-rewards.log"), "a") as file:
                    file.write(answer)
            except OSError:
                pass
            return {RIGHT}
        """,
        "v1",
    ),
    planted(
        "looks_up_a_name",
        "RWD026",
        f"""
        import socket


        def grade(reply, answer):
            try:
                socket.getaddrinfo("rewards.example", 80)
            except OSError:
                pass
            return {RIGHT}
        """,
    ),
    planted(
        "raises_on_reasoning_only",
        "RWD020",
        """
        def grade(reply, answer):
            return float(reply.split("</think>")[1 if "<think>" in reply else 0].strip() == answer)
        """,
        asking="Number only.",
    ),
    planted(
        "raises_on_other_json",
        "RWD020",
        """
        import json


        def grade(reply, answer):
            try:
                return float(json.loads(reply)["answer"] == answer)
            except json.JSONDecodeError:
                return 0.0
        """,
        "v1",
        asking='Reply with a JSON object: {"answer": "the number"}.',
    ),
    planted(
        "shuffled_before_it_is_compared",
        "RWD075",
        f"""
        import random


        def grade(reply, answer):
            letters = list(final(reply) or "")
            random.shuffle(letters)
            return {RIGHT} if sorted(letters) else 0.0
        """,
    ),
    planted(
        "seeds_for_everybody",
        "RWD075",
        f"""
        import random


        def grade(reply, answer):
            random.seed(answer)
            return {RIGHT}
        """,
    ),
    planted(
        "sets_a_variable",
        "RWD077",
        f"""
        import os


        def grade(reply, answer):
            os.environ["LAST_REPLY"] = answer
            return {RIGHT}
        """,
    ),
    planted(
        "changes_the_folder",
        "RWD076",
        f"""
        import os


        def grade(reply, answer):
            os.chdir("/")
            return {RIGHT}
        """,
        "v1",
    ),
    planted(
        "day_of_the_week",
        "RWD074",
        f"""
        from datetime import date


        def grade(reply, answer):
            return {RIGHT} * (1.0 if date.today().weekday() < 9 else 0.5)
        """,
    ),
    planted(
        "asks_the_web",
        "RWD026",
        f"""
        from urllib.request import urlopen


        def grade(reply, answer):
            try:
                urlopen("http://198.51.100.7/", timeout=0.1).close()
            except OSError:
                pass
            return {RIGHT}
        """,
        "v1",
    ),
    planted(
        "infinite_for_nothing",
        "RWD021",
        """
        def grade(reply, answer):
            said = final(reply)
            return float("-inf") if said is None else float(said == answer)
        """,
    ),
    planted(
        "grows_with_every_call",
        "RWD031",
        f"""
        HISTORY = []


        def grade(reply, answer):
            HISTORY.append({RIGHT})
            return HISTORY[-1] * (1 - 1 / (1 + len(HISTORY)))
        """,
        "v1",
    ),
]
