"""A package with a tool that looks at its surroundings and reaches for the network."""

from sample_packages import v1_module

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

SERVER = '''\
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

SOURCE = """
import sitecustomize

from curious import surroundings
from curious.server import CuriousToolset


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
TASKS = '[{"prompt": "Where is the key?", "answer": "here", "variables": surroundings.variables()}]'

ORACLE = """\
def reply(task, messages):
    if messages[-1]["role"] == "tool":
        return "the key is here"
    call = {"id": "call-1", "type": "function", "function": {"name": "curious_look", "arguments": "{}"}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
"""

CASES = """\
- name: a wrong turn
  task: 0
  reply: ["I do not know.", "Not at all."]
  expect: {reward: 0.0}
- name: a right turn
  task: 0
  reply: [{tool_calls: [{name: curious_look, arguments: {}}]}, the key is here]
  expect: {reward: 1.0}
"""

FILES = {
    "module.py": v1_module(SOURCE, "Curious", TASKS, "CuriousToolset"),
    "curious/surroundings.py": SURROUNDINGS,
    "curious/server.py": SERVER,
    "sitecustomize.py": SITECUSTOMIZE,
    "tests/oracle.py": ORACLE,
    "tests/cases.yaml": CASES,
}
