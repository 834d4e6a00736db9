"""A package per generation whose rewards follow instructions in the reply, and whose tests have every outcome."""

from sample_packages import v1_module

OBEY = '''
import asyncio
import random
import sys
import time


async def obeyed(order):
    """A reward whose behaviour the reply chooses."""
    if order.startswith("is "):
        return float(order[3:])
    if order == "raise":
        raise ValueError("this reply is too much")  # raised here
    if order == "leave":
        sys.exit(3)
    if order == "random":
        return random.random()
    if order == "spin":
        while True:
            pass
    if order == "sleep":
        time.sleep(3600)
    if order == "wait":
        await asyncio.sleep(3600)
    odd = {"none": None, "nan": float("nan"), "huge": 10**400}
    return odd.get(order, 0.0)
'''

V1_SOURCE = """
from {name}.obey import obeyed


class Data(vf.TaskData):
    answer: str
    group: int


class Obedient(vf.Task[Data]):
    @vf.reward(weight=2.0)
    async def main_reward(self, trace: vf.Trace) -> float:
        return await obeyed(trace.last_reply)

    @vf.reward(weight=0.5)
    async def several(self, trace: vf.Trace) -> dict[str, float]:
        return {{"first": 1.0, "second": 0.0}}

    @vf.reward(weight=0.25)
    async def with_runtime(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        return 1.0 if runtime is not None else 0.0

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))

    async def validate(self, runtime: vf.Runtime) -> bool:
        if self.data.group == 2:
            raise RuntimeError("cannot be checked")
        return self.data.group == 0
"""
V1_TASKS = [{"prompt": f"Say the word of task {i} ✓.", "answer": f"word {i}", "group": i} for i in range(3)]

V0_MODULE = """
import verifiers as vf
from datasets import Dataset

from {name}.obey import obeyed


async def main_reward(completion, answer, **kwargs):
    return await obeyed(completion[-1]["content"])


def length(completion, **kwargs):
    return float(len(completion[-1]["content"]))


def best_of_group(completions, **kwargs):
    longest = max(len(completion[-1]["content"]) for completion in completions)
    return [float(len(completion[-1]["content"]) == longest) for completion in completions]


def load_environment(**kwargs):
    rows = [{{"question": f"Say the word of task {{i}} ✓.", "answer": f"word {{i}}"}} for i in range(3)]
    rubric = vf.RubricGroup(
        [vf.Rubric(funcs=[main_reward, length], weights=[2.0, 0.0]), vf.Rubric(funcs=[best_of_group], weights=[0.5])]
    )
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), eval_dataset=Dataset.from_list(rows[:1]), rubric=rubric)
"""

ORACLE = """
def reply(task, messages):
    if task["answer"] == "word 1":
        raise LookupError("the oracle does not know")
    if task["answer"] == "word 2":
        return 42
    return "is 1.0"
"""

ORDERS = ("is 0.5", "raise", "leave", "none", "nan", "huge", "random", "spin", "sleep", "wait", "is 0.25")

PLACES = """
- name: by field
  task: {answer: word 2}
  reply: is 1.0
  expect: {reward: ">= 0"}
- name: by no field
  task: {answer: word 9}
  reply: is 1.0
  expect: {reward: ">= 0"}
- name: out of range
  task: 3
  reply: is 1.0
  expect: {reward: ">= 0"}
"""


def cases() -> str:
    """One case per order, and some that look for their task."""
    orders = "".join(f'- name: {order}\n  task: 0\n  reply: "{order}"\n  expect: {{reward: 1.0}}\n' for order in ORDERS)
    return orders + PLACES


AUTHORS_TESTS = """
import os
import subprocess
import sys

import pytest


def test_that_passes():
    import {name}


@pytest.mark.asyncio
async def test_that_awaits(mocker):
    assert await mocker.AsyncMock(return_value=1)() == 1


def test_of_any_number():
    from hypothesis import given, strategies

    given(strategies.integers())(lambda number: None)()


def test_that_fails():
    assert 1 + 1 == 3


@pytest.fixture
def broken():
    raise OSError("no such luck")


def test_that_errors(broken):
    pass


@pytest.mark.skip(reason="not now")
def test_that_is_skipped():
    pass


def test_that_leaves_a_process_behind():
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "left-behind-{name}"])
"""

UNCOLLECTABLE = "import a_module_that_does_not_exist\n"


def files(generation: str, name: str) -> dict[str, str]:
    v1 = v1_module(V1_SOURCE.format(name=name), "Obedient", V1_TASKS)
    return {
        "module.py": v1 if generation == "v1" else V0_MODULE.format(name=name),
        f"{name}/obey.py": OBEY,
        "tests/oracle.py": ORACLE,
        "tests/cases.yaml": cases(),
        "tests/test_it.py": AUTHORS_TESTS.format(name=name),
        "tests/test_uncollectable.py": UNCOLLECTABLE,
    }
