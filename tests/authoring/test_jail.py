"""Untrusted programs: what the jail of code environments refuses."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from envwright.authoring.new.render import TEMPLATES, files_of
from test_generated_code import plan_of

JAIL = (TEMPLATES / "code" / "jail.py").read_text("utf-8")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel confines programs on Linux only")


def run(folder: Path, program: str, calls: list[str] | None = None, given: str = "") -> dict[str, Any] | None:
    """The output of a program and the results of its calls, from the sandbox of an environment."""
    (folder / "job.json").write_text(json.dumps({"program": program, "calls": calls or [], "input": given}))
    command = [sys.executable, "-I", "-S", "-c", JAIL]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
    assert b"cannot confine" not in done.stderr
    assert len(done.stdout) + len(done.stderr) < 10_000
    result = folder / "result.json"
    if not os.path.lexists(result):
        return None
    assert stat.S_ISREG(result.lstat().st_mode)  # reading a pipe would block
    return json.loads(result.read_text())


def test_jail_calls_and_feeds_a_program(tmp_path: Path):
    assert run(tmp_path, "def add(a, b):\n    return a + b", ["add(1, 2)", "add(1, 'a')"]) == {
        "values": ["3", None],
        "printed": "",
    }
    assert run(tmp_path, "import math, collections\nprint(int(input()) * 2)", given="21\n")["printed"] == "42\n"


def test_jail_has_the_standard_library(tmp_path: Path):
    modules = "bisect, collections, datetime, decimal, fractions, functools, heapq, itertools, json, math, random, re"
    assert run(tmp_path, f"import {modules}, statistics, string, textwrap, typing\nprint('ok')") == {
        "values": [],
        "printed": "ok\n",
    }


def test_jail_keeps_the_output_of_a_program_that_exits(tmp_path: Path):
    assert run(tmp_path, "import sys\nprint(1)\nsys.exit(0)", ["f(1)"]) == {"values": [None], "printed": "1\n"}


@pytest.mark.parametrize(
    ("attack", "program"),
    [
        ("forks", "import os\nwhile True:\n    os.fork()"),
        ("takes all memory", "x = 'a' * 10**10"),
        ("takes memory piece by piece", "x = []\nwhile True:\n    x.append('a' * 10**6)"),
        ("never ends", "while True:\n    pass"),
        ("raises again and again", "def f():\n    f()\nf()"),
        ("reads the password file", "print(open('/etc/passwd').read())"),
        ("reads the dataset", f"print(open({str(TEMPLATES / 'code' / 'jail.py')!r}).read())"),
        ("reads its surroundings", "print(open('/proc/self/environ').read())"),
        ("lists folders", "import os\nprint(os.listdir('/'))"),
        ("goes up", "print(open('../../etc/passwd').read())"),
        ("opens a connection", "import socket\nsocket.create_connection(('127.0.0.1', 80))"),
        ("starts a shell", "import os\nassert os.system('true') == 0"),
        ("starts a program", "import subprocess\nsubprocess.run(['true'], check=True)"),
        ("starts a thread", "import threading\nthreading.Thread(target=print).start()"),
        ("kills its parent", "import os\nos.kill(os.getppid(), 9)"),
        ("makes a pipe that blocks its reader", "import os\nos.mkfifo('result.json')\nos._exit(0)"),
        ("links to a file outside", "import os\nos.symlink('/etc/hostname', 'result.json')\nos._exit(0)"),
        ("changes modes", "import os\nos.chmod('/tmp', 0o777)"),
        ("lifts its limits", "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (99, 99))"),
        ("ends at once", "import os\nos._exit(0)"),
        ("writes without end", "f = open('x', 'w')\nwhile True:\n    f.write('x' * 10**6)"),
        ("does not parse", "def ("),
        ("is nested deeply", "(" * 100_000),
    ],
)
def test_jail_stops_hostile_programs(tmp_path: Path, attack: str, program: str):
    (tmp_path / "within").mkdir()
    assert run(tmp_path / "within", program, ["add(1, 2)"]) is None, attack


@pytest.mark.slow
def test_jail_bounds_endless_output(tmp_path: Path):
    assert run(tmp_path, "import os\nwhile True:\n    os.write(1, b'x' * 10**6)") is None
    assert run(tmp_path, "while True:\n    print('x' * 10**6)") is None


def test_jail_ignores_results_of_earlier_programs(tmp_path: Path):
    assert run(tmp_path, "print('yes')") == {"values": [], "printed": "yes\n"}
    assert run(tmp_path, "import os\nos._exit(0)") is None


@pytest.mark.parametrize(
    "program",
    [
        "import builtins\nbuiltins.repr = lambda value: '3'",
        "import json\njson.dump = lambda *_: open('result.json', 'w').write('[]')",
        "class Equal:\n    __eq__ = lambda *_: True\n    __repr__ = lambda _: 'anything'\nadd = lambda *_: Equal()",
        "import sys\nframe = sys._getframe(1)\nprint({**frame.f_locals, **frame.f_globals, **frame.f_back.f_locals})",
    ],
)
def test_jail_hides_expected_values(tmp_path: Path, program: str):
    """The job names calls and inputs alone; whatever a program does to its checker, it can only guess values."""
    result = run(tmp_path, program, ["add(19283700, 46)"])
    assert "19283746" not in json.dumps(result)


FORGED = ("{}", "[]", '{"values": [], "printed": ""}', '{"values": 3, "printed": ""}', "[" * 99_999)


@pytest.mark.parametrize(
    "program",
    [
        *(f"import os\nopen('result.json', 'w').write({text!r})\nos._exit(0)" for text in FORGED),
        "class Odd:\n    __repr__ = lambda _: '{[]: 1}'\nadd = lambda *_: Odd()",
    ],
)
def test_sandbox_odd_results_are_failures_and_no_exceptions(tmp_path: Path, program: str):
    files = files_of(plan_of("v0", "code", "code"))
    (tmp_path / "jail.py").write_text(files["my_task/jail.py"])
    sandbox: dict[str, Any] = {"__file__": str(tmp_path / "sandbox.py")}
    exec(files["my_task/sandbox.py"], sandbox)
    assert not asyncio.run(sandbox["passes"](program, [{"call": "add(1, 2)", "input": "", "expected": "3"}]))
