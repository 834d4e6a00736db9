"""What the guard sees while package code runs. A process of its own runs all cases, as an audit hook stays for good."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

MODULE = """
import gzip, logging, os, random, subprocess, tempfile, time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date

class Endless(dict):
    def __getattr__(self, name):
        return Endless()

class Table(Mapping):
    __iter__ = __len__ = None

    def __getitem__(self, key):
        return {"a": 1}[key]

def key_of_a_mapping():
    return "a" in Table()

def checked():
    return time.time(), random.random()

def read_many():
    for number in range(60):
        os.environ.get(f"K{number}")

def objects_that_invent_attributes():
    Endless(a=1).get("a")
    checked()

def reads_beside_a_copy():
    read_many()
    os.environ.update({f"SET{number}": "" for number in range(6)})
    return os.environ.get("BONUS"), os.environ.get("DECLARED")

def formats_now():
    return f"{time.strftime('%Y')}", time.localtime(None), time.ctime(
    )

def formats_a_given_time():
    return time.strftime("%Y", time.gmtime(0)), time.localtime(1.5), time.ctime(time.mktime((2000,) + (1,) * 8))

def thread():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(checked).result()

BEGUN_BEFORE = ThreadPoolExecutor(1)
BEGUN_BEFORE.submit(str).result()

def thread_begun_before():
    return BEGUN_BEFORE.submit(many_clocks).result()

def stamps_and_names():
    logging.getLogger("x").warning("odd")
    gzip.compress(b"")
    tempfile.TemporaryDirectory().cleanup()

def runs_a_program_on_a_file_of_its_own():
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["true", file.name], check=True)

def seeds_all_that_follows():
    random.seed(7)

def unseeded():
    return random.Random().choice("ab")

def setup_state():
    return random.choice("ab"), open("/etc/passwd").close()

def executes_text_that_is_no_program():
    try:
        exec("1 +\\n(")
    except SyntaxError:
        pass

def own_process():
    open("/proc/self/status").close()
    open("/dev/null").close()

def environment_of_the_process():
    open("/proc/self/environ").close()

def day_and_folder():
    os.chdir("/")
    return date.today()

def shuffles():
    random.shuffle([1, 2])

def many_clocks():
    code = compile("time.time()\\n" * 60, __file__, "exec")
    exec(code)
    open("/etc/passwd").close()
"""
SCRIPT = """
import json, sys
from pathlib import Path
from envwright_worker.failures import Sources
from envwright_worker.guards import ActGuard
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
import package
found = {}
for name in sys.argv[2:]:
    guard = ActGuard(Sources(folder), (folder,), ["DECLARED"])
    with guard.watching():
        getattr(package, name)()
    found[name] = sorted({act["detail"] for act in guard.acts()})
print(json.dumps(found))
"""
CHECKED = ["Random.random", "time.time"]
EXPECTED = {
    "objects_that_invent_attributes": CHECKED,
    "reads_beside_a_copy": ["BONUS", *(f"SET{number} (set)" for number in range(6))],
    "formats_now": ["time.ctime", "time.localtime", "time.strftime"],
    "formats_a_given_time": [],
    "thread": CHECKED,
    "thread_begun_before": ["/etc/passwd", *(["time.time"] if sys.version_info >= (3, 12) else [])],
    "stamps_and_names": [],
    "runs_a_program_on_a_file_of_its_own": [],
    "seeds_all_that_follows": ["Random.seed"],
    "key_of_a_mapping": [],
    "unseeded": ["random.Random() without a seed"],
    "setup_state": ["/etc/passwd"],
    "executes_text_that_is_no_program": [],
    "own_process": [],
    "environment_of_the_process": ["/proc/self/environ"],
    "day_and_folder": ["another working folder, /", "date.today"],
    "shuffles": ["random.shuffle"],
    "many_clocks": ["/etc/passwd", "time.time"],
}


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("package")
    (folder / "package.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
    command = [sys.executable, "-c", SCRIPT, str(folder), *EXPECTED]
    tools = str(Path(__file__).parents[2] / "tools")
    done = subprocess.run(command, env={"PYTHONPATH": tools}, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("case", EXPECTED)
def test_guard_reports_acts_of_the_package_alone(case: str, acts: dict[str, list[str]]) -> None:
    assert acts[case] == EXPECTED[case]
