"""A conversational package per generation that looks at its surroundings and reaches for the network."""

from sample_packages import v0_module, v1_module

SITECUSTOMIZE = """\
import sys

executions = 0


def _count(event, arguments):
    global executions
    if event == "exec" and getattr(arguments[0], "co_filename", "").endswith("/verifiers/__init__.py"):
        executions += 1


sys.addaudithook(_count)
"""

SURROUNDINGS = """\
import os
import socket
import urllib.request

import httpx


def variables():
    return dict(os.environ)


def connect_quietly():
    try:
        socket.create_connection(("203.0.113.9", 80), timeout=1)  # an address
    except OSError:
        pass


def fetch_quietly():
    try:
        urllib.request.urlopen("http://files.example.org/data", timeout=1)
    except OSError:
        pass


async def fetch_quietly_by_httpx():
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get("http://judge.example.org/")
    except httpx.HTTPError:
        pass


def speak_locally():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()


connect_quietly()
speak_locally()
"""

V1_SERVER = '''\
import os

import verifiers.v1 as vf


class CuriousToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "curious"

    @vf.tool
    def look(self) -> str:
        """Look around."""
        return "the server sees " + " ".join(sorted(os.environ))


if __name__ == "__main__":
    CuriousToolset.run()
'''

V1_SOURCE = """
import sitecustomize

from curious_v1 import surroundings
from curious_v1.server import CuriousToolset


class Data(vf.TaskData):
    answer: str
    variables: dict[str, str]


class Curious(vf.Task[Data]):
    @vf.reward
    async def found(self, trace: vf.Trace) -> float:
        surroundings.fetch_quietly()
        await surroundings.fetch_quietly_by_httpx()
        return float("key" in trace.last_reply)

    @vf.metric
    async def executions(self, trace: vf.Trace) -> float:
        return float(sitecustomize.executions)
"""
V1_TASKS = '[{"prompt": "Where is the key?", "answer": "here", "variables": surroundings.variables()}]'

V1_ORACLE = """\
def reply(task, messages):
    if messages[-1]["role"] == "tool":
        return "the key is here"
    call = {"id": "call-1", "type": "function", "function": {"name": "curious_look", "arguments": "{}"}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
"""

V0_SOURCE = """
import sitecustomize

from curious_v0 import surroundings


def text_of(completion):
    return str(completion[-1]["content"])


async def found(completion, state, **kwargs):
    surroundings.fetch_quietly()
    await surroundings.fetch_quietly_by_httpx()
    return float(state.get("asked", 0) > 0 and "key" in text_of(completion))


def executions(**kwargs):
    return float(sitecustomize.executions)


class CuriousEnv(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        state["asked"] = state.get("asked", 0) + 1
        return [{"role": "user", "content": "Are you sure?"}]
"""
V0_RUBRIC = "vf.Rubric(funcs=[found, executions], weights=[1.0, 0.0])"
V0_ROWS = '[{"question": "Where is the key?", "answer": "here", "info": {"variables": surroundings.variables()}}]'

V0_ORACLE = """\
def reply(task, messages):
    return "Perhaps here." if messages[-1]["content"] != "Are you sure?" else "the key is here"
"""

CASES = """\
- name: a wrong turn
  task: 0
  reply: ["I do not know.", "Not at all."]
  expect: {reward: 0.0}
- name: a right turn
  task: 0
  reply: [I do not know., the key is here]
  expect: {reward: 1.0}
"""

MODULES = {
    "v0": v0_module(V0_SOURCE, V0_RUBRIC, V0_ROWS, environment="CuriousEnv", options="max_turns=2"),
    "v1": v1_module(V1_SOURCE, "Curious", V1_TASKS, "CuriousToolset"),
}


def files(generation: str) -> dict[str, str]:
    return {
        "module.py": MODULES[generation],
        f"curious_{generation}/surroundings.py": SURROUNDINGS,
        f"curious_{generation}/server.py": V1_SERVER if generation == "v1" else "",
        "sitecustomize.py": SITECUSTOMIZE,
        "tests/oracle.py": V1_ORACLE if generation == "v1" else V0_ORACLE,
        "tests/cases.yaml": CASES,
    }
