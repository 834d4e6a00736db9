"""Packages whose reward code is plain and whose cases are too few: which mutation testing must show."""

from sample_packages import v1_module

GRADING = '''
"""Reading an answer, in all the ways that mutants have to be put in place."""

import functools
import os
import re

DIGITS = r"\\d+"
ANSWER = re.compile(rf"<a>({DIGITS})</a>")
LOOKED_UP = {"seven": 7}


def answer_in(reply, tag="a"):
    if f"<{tag}>" not in reply:
        return None
    found = ANSWER.fullmatch(reply.strip())
    if found is None:
        return in_words(reply)
    return steps_to(int(found[1]))


@functools.lru_cache
def in_words(reply):
    try:
        return LOOKED_UP[reply.removeprefix("<a>").removesuffix("</a>").lower()]
    except KeyError:
        return None


def steps_to(number):
    """The number itself, the long way round: a mutant of this loop hangs."""
    count = 0
    while count < number:
        count += 1
    return count


def leave_if_haunted(reply):
    if reply.count("x") > 1000:
        os._exit(3)


def never_called(reply):
    return len(reply) > 3
'''

V0_MODULE = """
import verifiers as vf
from datasets import Dataset
from {name}.grading import answer_in, leave_if_haunted


def load_environment(bonus=0.0):
    share = 1.0 - bonus

    def correct(completion, answer, **kwargs):
        leave_if_haunted(completion[-1]["content"])
        return share if answer_in(completion[-1]["content"]) == int(answer) else 0.0

    def length(completion, **kwargs):
        return min(len(completion[-1]["content"]), 50)

    rows = [{{"question": f"What is {{number}}?", "answer": str(number)}} for number in range(7, 12)]
    rubric = vf.Rubric(funcs=[correct, length], weights=[1.0, 0.0])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
"""

V1_SOURCE = """
from {name}.grading import answer_in, leave_if_haunted


class Data(vf.TaskData):
    answer: str


class Weak(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        leave_if_haunted(trace.last_reply)
        return 1.0 if answer_in(trace.last_reply) == int(self.data.answer) else 0.0

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return min(len(trace.last_reply), 50)
"""
V1_TASKS = [{"prompt": f"What is {n}?", "answer": str(n)} for n in range(7, 12)]

ORACLE = """
def reply(task, messages):
    return f"<a>{task['answer']}</a>"
"""

CASES = """
- name: right
  task: 0
  reply: <a>7</a>
  expect: {reward: 1.0}

- name: in words
  task: 0
  reply: <a>Seven</a>
  expect: {reward: 1.0, length: 12}

- name: unknown words
  task: 0
  reply: <a>eight</a>
  expect: {reward: 0.0}

- name: without a tag
  task: 0
  reply: "7"
  expect: {reward: 0.0, length: 1}

- name: white space
  task: 0
  reply: "  <a>7</a> "
  expect: {reward: 1.0}

- name: long
  task: 0
  reply: "a reply that goes on and on, until there are more than fifty characters in it"
  expect: {reward: 0.0, length: 50}
"""


def files(generation: str, name: str) -> dict[str, str]:
    v1 = v1_module(V1_SOURCE.format(name=name), "Weak", V1_TASKS)
    return {
        "module.py": v1 if generation == "v1" else V0_MODULE.format(name=name),
        f"{name}/grading.py": f"\ufeff{GRADING}",  # as editors on Windows write it
        "tests/oracle.py": ORACLE,
        "tests/cases.yaml": CASES,
    }
