"""Rewards that depend on something other than the reply, or take too long."""

from __future__ import annotations

from planted import planted

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
        "messages_that_must_be_dictionaries",
        "RWD102",
        functions="""
        def correct(completion, answer, **_):
            said = [one["content"] for one in completion if isinstance(one, dict) and one["role"] == "assistant"]
            return float(bool(said) and final(said[-1]) == answer)
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
        "mutable_default",
        "RWD070",
        """
        def grade(reply, answer, seen=[]):
            seen.append(reply)
            return float(final(reply) == answer) / (1 + (len(seen) > 150))
        """,
    ),
]
EXACT = "def grade(reply, answer):\n    return float(final(reply) == answer)\n"
NEEDS_SERVER = """
import os


def server():
    if not os.environ.get("SUM_SERVER"):
        raise RuntimeError("SUM_SERVER must be set, see the README")


"""
SCORED_BY_SERVER = f"{NEEDS_SERVER}def grade(reply, answer):\n    server()\n    return float(final(reply) == answer)\n"
WITHOUT_A_JUDGE = """
import os

KEY = os.environ.get("SUM_JUDGE_KEY")


def grade(reply, answer):
    if KEY:
        return float(final(reply) == answer)
    return float(len(reply) > 3)
"""
OTHER_SPLIT = """
import json
import tempfile
from pathlib import Path

from datasets import load_dataset

ROWS = Path(tempfile.mkdtemp()) / "rows.jsonl"
ROWS.write_text(json.dumps({"question": "What is 1 plus 1?", "answer": "2"}))
load_dataset("json", data_files=str(ROWS), split="test")
"""
SINGLE_CAUSES = [
    planted("key_at_import", "SCH042", f'import os\n\nKEY = os.environ["SUM_API_KEY"]\n{EXACT}'),
    planted("key_at_import", "SCH042", f'import os\n\nKEY = os.environ["SUM_API_KEY"]\n{EXACT}', "v1"),
    planted("variable_at_import", "SCH042", f"{NEEDS_SERVER}server()\n\n\n{EXACT}"),
    planted("variable_at_import", "SCH042", f"{NEEDS_SERVER}server()\n\n\n{EXACT}", "v1"),
    planted("variable_in_scoring", "SCH042", SCORED_BY_SERVER),
    planted("variable_in_scoring", "SCH042", SCORED_BY_SERVER, "v1"),
    planted("client_of_a_judge_at_import", "SCH042", f"from openai import OpenAI\n\nCLIENT = OpenAI()\n\n\n{EXACT}"),
    planted("rule_of_thumb_without_the_key_of_a_judge", "SCH047", WITHOUT_A_JUDGE),
    planted("split_that_the_data_lacks", "SCH041", f"{OTHER_SPLIT}\n\n{EXACT}"),
]
"""Defects whose cause is their only finding."""
