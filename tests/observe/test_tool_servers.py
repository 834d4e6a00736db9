"""Tool servers are forked from a process that has imported verifiers, and are what fresh ones would be."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from sample_packages import look_at, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from envops.observe.workspace import Workspace

SERVER = '''\
import json
import os
import random
import sys

import verifiers.v1 as vf

from {module} import loaded


class LookingToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "looking"

    @vf.tool
    def look(self) -> str:
        """Look around."""
        return json.dumps({{
            "alone": sys.orig_argv[-2:] == ["-m", "{module}.server"],
            "name": __name__,
            "loaded": loaded.times,
            "variables": sorted(os.environ),
            "folder": os.path.basename(os.path.dirname(os.getcwd())),
            "leads": os.getsid(0) == os.getpid(),
            "drawn": random.random(),
            "server": os.getpid(),
        }})


if __name__ == "__main__":
    LookingToolset.run()
'''
LOADED = "times = 0\n"
MODULE = """\
import verifiers.v1 as vf

from {module} import loaded
from {module}.server import LookingToolset

__all__ = ["LookingTaskset"]


class Data(vf.TaskData):
    answer: str


class Looking(vf.Task[Data]):
    @vf.reward
    async def looked(self, trace: vf.Trace) -> float:
        return float("variables" in trace.last_reply)


class LookingTaskset(vf.Taskset[Looking, vf.TasksetConfig]):
    @classmethod
    def toolsets(cls, config):
        return [LookingToolset(vf.SharedToolsetConfig())]

    def load(self):
        loaded.times += 1
        return [Looking(Data(idx=n, prompt=f"What is at {{n}}?", answer="much"), self.config.task) for n in range(4)]
"""
ORACLE = """\
def reply(task, messages):
    if messages[-1]["role"] == "tool":
        return messages[-1]["content"]
    call = {"id": "call-1", "type": "function", "function": {"name": "looking_look", "arguments": "{}"}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}
"""


def what_servers_see(
    name: str, settings: str, environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> tuple[list[Any], list[Any]]:
    """What gold's tool calls saw in the rewards gate, and in evaluations."""
    files = {
        "module.py": MODULE.format(module=name),
        f"{name}/server.py": SERVER.format(module=name),
        f"{name}/loaded.py": LOADED,
        "tests/oracle.py": ORACLE,
    }
    package = write_package(environments / name, "v1", files, settings=settings)
    facts = look_at(package, workspace, patch).facts
    assert facts.failures == {}
    assert [one.failure for one in facts.rollouts if one.failure] == []
    scored = [one.completion for one in facts.scores if one.policy == "oracle"]
    played = [one.completion for one in facts.rollouts if one.policy == "oracle"]
    return [[json.loads(str(each[-1]["content"])) for each in one] for one in (scored, played)]  # type: ignore[return-value]


@pytest.mark.worker
def test_a_forked_server_sees_what_a_fresh_one_sees(
    environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    fresh = "[tool.envops.worker]\nfresh = true\n"
    forked, forked_ahead = what_servers_see("looking_forked", "", environments, workspace, patch)
    alone, alone_later = what_servers_see("looking_fresh", fresh, environments, workspace, patch)
    assert {one["alone"] for one in forked + forked_ahead} == {False}
    assert {one["alone"] for one in alone + alone_later} == {True}
    own = ("alone", "drawn", "server")
    seen = [{key: value for key, value in one.items() if key not in own} for one in (forked[0], alone[0])]
    assert seen[0] == seen[1]
    assert seen[0]["loaded"] == 0
    assert seen[0]["name"] == "__main__"
    assert seen[0]["leads"]


@pytest.mark.worker
def test_forks_that_play_ahead_have_servers_of_their_own(
    environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    scored, played = what_servers_see("looking_ahead", "", environments, workspace, patch)
    assert len({one["server"] for one in scored}) == 1
    assert len({one["server"] for one in played}) == 2
    assert not {one["server"] for one in scored} & {one["server"] for one in played}
    assert len({one["drawn"] for one in scored + played}) == len(scored + played)


SCRIPT = """
import os, signal, sys, threading, time
from pathlib import Path
from envops.observe.worker.tool_servers import NoNursery, Nursery

{body}
"""
LOST = """
nursery = Nursery()
os.kill(nursery._process, signal.SIGKILL)
os.waitpid(nursery._process, 0)
nursery.prepare()
with open(os.devnull, "wb") as log:
    try:
        nursery.server("json.tool", {}, Path("/"), log)
    except NoNursery:
        print("none")
"""
THREADS = """
threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
try:
    Nursery()
except NoNursery as error:
    print("none")
"""
ENDS = """
nursery = Nursery()
with open(sys.argv[1], "wb") as log:
    server = nursery.server("this", dict(os.environ), Path("/"), log)
while server.returncode is None:
    time.sleep(0.01)
print("none" if b"Beautiful" in Path(sys.argv[1]).read_bytes() else "nothing was printed")
"""


@pytest.mark.parametrize("body", [LOST, THREADS, ENDS], ids=["it was killed", "other threads run", "a server ends"])
def test_where_no_server_can_be_forked_or_none_is_left_it_is_said(body: str, tmp_path: Path) -> None:
    script = [sys.executable, "-c", SCRIPT.format(body=body), str(tmp_path / "log")]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("none", 0), done.stderr
