"""Workers that were forked from a process which had imported verifiers: in all but time, they are fresh processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from envops.declare.registry import EnvironmentEntry
from envops.observe.fork_server import ForkServer, ForkServers, Origin, toolboxes_of
from envops.observe.observation import Watcher, observe
from envops.observe.process import Confinement, StageFailed, WorkerProcess
from envops.observe.requests import Wish
from envops.observe.searching import search_toolbox
from envops.observe.starting import PACKAGE, WORKER_FOLDER
from envops.observe.venv import VirtualEnvironment, venv_for, venv_key
from envops.observe.wheel import TESTS_LOCK
from sample_packages import EXEMPLARS, REPOSITORY, SMALL, load, processes_with, write_package
from test_hostile_workers import GONE_WITHIN, LOADING_WITHIN, SPAWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envops.declare.package import Package
    from envops.observe.facts import Failure
    from envops.observe.workspace import Workspace

pytestmark = pytest.mark.worker

V1 = """
import random

import verifiers.v1 as vf

__all__ = ["SmallTaskset"]


class Data(vf.TaskData):
    answer: str


class Small(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        if "boom" in trace.last_reply:
            raise ValueError("boom")
        return float(self.data.answer in set(trace.last_reply.split()))

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class SmallTaskset(vf.Taskset[Small, vf.TasksetConfig]):
    def load(self) -> list[Small]:
        rng = random.Random(7)
        numbers = [rng.randint(100, 999) for _ in range(12)]
        return [
            Small(Data(prompt=f"Say twice {number}.", answer=str(2 * number)), self.config.task) for number in numbers
        ]
"""
V0 = """
import verifiers as vf
from datasets import Dataset


def right(completion, answer, **_):
    reply = completion[-1]["content"]
    if "boom" in reply:
        raise ValueError("boom")
    return float(answer in set(reply.split()))


def load_environment(**_):
    rows = [{"question": f"Say twice {number}.", "answer": str(2 * number)} for number in range(100, 112)]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))
"""
CASES = """
- {name: right, task: 0, reply: "boom", expect: {reward: "0"}}
- {name: silent, task: 1, reply: "", expect: {reward: "0"}}
"""
TESTS = """
import sys

import anyio
import pytest


def test_score(tasks, score):
    assert score(tasks[0], tasks[0]["answer"]).reward == 1.0


def test_what_does_not_hold(tasks, score):
    assert score(tasks[0], "nothing").reward == 1.0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_of_a_plugin(anyio_backend):
    await anyio.sleep(0)


def test_streams(capsys, monkeypatch, tmp_path, caplog, recwarn):
    print("said")
    assert capsys.readouterr().out == "said\\n"


@pytest.mark.skip
def test_left_out():
    raise AssertionError
"""
VIEW = """
import gc, importlib.util, json, logging, os, signal, sys, tempfile, threading, warnings
from pathlib import Path
import numpy, verifiers.v1

def moved(text):
    return str(text).replace(os.path.realpath("."), "SCRATCH").replace(os.environ["TMPDIR"][:-4], "SCRATCH")

def variables(module):
    return {key: moved(value) for key, value in vars(module).items() if isinstance(value, (str, Path))}

named = {name: variables(module) for name, module in sys.modules.items()
         if name.startswith(("verifiers", "datasets", "huggingface_hub", "fsspec", "tempfile", "site"))}
Path(__file__).with_name("view.json").write_text(json.dumps({
    "environment": {k: moved(v) for k, v in os.environ.items() if k != "ENVOPS_WORKER"},
    "cwd": moved(os.getcwd()), "path": [moved(one) for one in sys.path], "argv": sys.argv,
    "flags": str(sys.flags), "writes none": sys.dont_write_bytecode,
    "hash": hash("a"), "order": list({"a", "b", "c", "d", "e"}),
    "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "leader": os.getsid(0) == os.getpid() == os.getpgid(0), "threads": threading.active_count(),
    "umask": os.umask(0o22), "temporary": moved(tempfile.gettempdir()), "modules": named,
    "stains": [os.environ.get("STAIN"), getattr(verifiers.v1, "stain", None), json.dumps.__module__],
    "priority": open("/proc/self/oom_score_adj").read(),
    "imported": sorted(name for name in sys.modules if not name.startswith("envops_worker")),
    "importable": [name for name in ("pytest", "hypothesis", "pluggy") if importlib.util.find_spec(name)],
    "finders": [str(type(one)) + getattr(one, "__name__", "") for one in sys.meta_path],
    "filters": [str(one) for one in warnings.filters], "handlers": [str(one) for one in logging.root.handlers],
    "loggers": sorted(name for name in logging.root.manager.loggerDict), "collecting": len(gc.callbacks),
}, default=str))
raise RuntimeError("seen")
"""
STAIN = """
import json, os, sys, threading, time, gc, verifiers.v1

verifiers.v1.stain = "stained"
os.environ["STAIN"] = "stained"
sys.path.append("/stained")
for name in list(sys.modules):
    if name.startswith("pydantic"):
        del sys.modules[name]
os.chdir("/")
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
held = bytearray(64 * 2**20)
json.dumps = lambda *_, **__: "stained"
os._exit(5)
"""
WISH = Wish(use_cache=False)


@pytest.fixture(scope="module")
def venv(workspace: Workspace) -> VirtualEnvironment:
    lock = REPOSITORY / "environments" / EXEMPLARS["v1"] / "requirements.lock"
    return venv_for(lock, workspace, threading.Event())


@pytest.fixture(scope="module")
def server(venv: VirtualEnvironment, workspace: Workspace) -> Iterator[ForkServer]:
    venv_for(TESTS_LOCK, workspace, threading.Event())
    search_toolbox(workspace, threading.Event())
    with workspace.scratch() as scratch, ForkServer(venv, "v1", 0, scratch, toolboxes_of(workspace)) as made:
        assert made.refusal(threading.Event()) == ""
        yield made


@pytest.fixture
def hostile(tmp_path: Path) -> Callable[[str], Path]:
    """Writes the module of an environment and gives the folder that stands for its unpacked wheel."""

    def write(module: str) -> Path:
        (tmp_path / "hostile.py").write_text(dedent(module))
        return tmp_path

    return write


@contextmanager
def worker_at(
    overlay: Path, venv: VirtualEnvironment, workspace: Workspace, server: ForkServer | None, **confinement: Any
) -> Iterator[WorkerProcess]:
    with workspace.scratch() as scratch:
        arguments = (venv, overlay, scratch, Confinement({}, **confinement), threading.Event(), server)
        with WorkerProcess(*arguments) as worker:
            assert worker.started.how == ("forked" if server else "fresh")
            yield worker


def failure_of(
    overlay: Path, venv: VirtualEnvironment, workspace: Workspace, server: ForkServer | None, **confinement: Any
) -> Failure:
    """How loading fails."""
    with worker_at(overlay, venv, workspace, server, **confinement) as worker, pytest.raises(StageFailed) as caught:
        load(worker, overlay)
    return caught.value.failure


def view_of(overlay: Path, venv: VirtualEnvironment, workspace: Workspace, server: ForkServer | None) -> dict[str, Any]:
    """What a module with `VIEW` sees of its process."""
    assert failure_of(overlay, venv, workspace, server).message == "seen"
    view: dict[str, Any] = json.loads((overlay / "view.json").read_text())
    return view


def observed(package: Package, workspace: Workspace, servers: ForkServers | None) -> dict[str, Any]:
    """Facts without what tells the time, and the way the worker came to be."""
    entry = EnvironmentEntry(package.name, gates=SMALL)
    watcher = Watcher(stage=lambda _: None, advance=lambda *_: None)
    facts = observe(entry, package, workspace, WISH, watcher, threading.Event(), servers)
    assert facts.started.how == ("forked" if servers else "fresh"), facts.started
    assert facts.failures == {}
    # Two rollouts of a task are side by side: which of them asks first gets the first of the two replies.
    told = sorted(
        (replace(each, rollout=0) for each in facts.rollouts), key=lambda each: repr(replace(each, seconds=0.0))
    )
    data: dict[str, Any] = timeless(asdict(replace(facts, rollouts=told, started=type(facts.started)(), memory=0)))
    return data


def timeless(value: Any) -> Any:
    """Data without what is measured in seconds."""
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if "seconds" not in str(key)}
    return [timeless(one) for one in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize(("generation", "module"), [("v0", V0), ("v1", V1)])
def test_a_forked_worker_sees_what_a_fresh_one_sees(
    generation: str, module: str, environments: Path, workspace: Workspace
) -> None:
    files = {"module.py": module, "tests/cases.yaml": CASES, "tests/test_small.py": TESTS}
    package = write_package(environments / f"small_{generation}", generation, files)
    sharing = {venv_key(package.folder / "requirements.lock"): 2}
    fresh = observed(package, workspace, None)
    with ForkServers(workspace, sharing, threading.Event()) as servers:
        forked = observed(package, workspace, servers)
    assert fresh["scores"]
    assert fresh["rollouts"]
    assert [each["outcome"] for each in fresh["tests"]] == ["passed", "failed", "passed", "passed", "skipped"]
    assert fresh["search"]["evaluations"] > 100
    for part in fresh:
        assert forked[part] == fresh[part], part


def test_variables_paths_signals_and_what_libraries_remember_are_those_of_a_fresh_process(
    hostile: Callable[[str], Path], venv: VirtualEnvironment, workspace: Workspace, server: ForkServer
) -> None:
    overlay = hostile(VIEW)
    forked, fresh = (view_of(overlay, venv, workspace, one) for one in (server, None))
    for name, seen in fresh["modules"].items():
        assert forked["modules"].get(name) == seen, name
    del forked["modules"], fresh["modules"]
    assert forked == fresh
    assert fresh["writes none"] is True
    assert fresh["stains"] == [None, None, "json"]


TESTED = """
import gc

import pytest


def test_pytest_was_there_before_this_process():
    assert not any(one is pytest for one in gc.get_objects())  # which leaves out what was frozen before
"""


def test_tests_are_run_by_what_was_imported_once(hostile: Callable[[str], Path], workspace: Workspace) -> None:
    overlay = hostile(V0)
    (overlay / "tests").mkdir()
    (overlay / "tests/test_it.py").write_text(TESTED)
    settings = {"module": "hostile", "generation": "v0", "args": {}, "package": str(overlay), "overlay": str(overlay)}
    toolbox = str(venv_for(TESTS_LOCK, workspace, threading.Event()).site_packages)
    venv = venv_for(REPOSITORY / "environments" / EXEMPLARS["v0"] / "requirements.lock", workspace, threading.Event())
    with workspace.scratch() as scratch, ForkServer(venv, "v0", 0, scratch, toolboxes_of(workspace)) as server:
        assert server.refusal(threading.Event()) == ""
        with worker_at(overlay, venv, workspace, server) as worker:
            list(worker.request("load", 60, settings=settings))
            list(worker.request("tests", 60, files=["tests/test_it.py"], toolbox=toolbox, seconds=60))
            outcomes = list(worker.request("tests", 60))
    assert [one["outcome"] for _, one in outcomes] == ["passed"], outcomes


def test_nothing_of_one_fork_reaches_the_next(
    tmp_path: Path, venv: VirtualEnvironment, workspace: Workspace, server: ForkServer
) -> None:
    for name, module in (("stain", STAIN), ("view", VIEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hostile.py").write_text(module)
    before = view_of(tmp_path / "view", venv, workspace, server)
    assert failure_of(tmp_path / "stain", venv, workspace, server).message == "the worker ended with exit code 5"
    assert view_of(tmp_path / "view", venv, workspace, server) == before


def test_chance_differs_from_fork_to_fork(
    hostile: Callable[[str], Path], venv: VirtualEnvironment, workspace: Workspace, server: ForkServer
) -> None:
    overlay = hostile("import random, numpy; raise RuntimeError([random.random(), numpy.random.random()])")
    first, second = (json.loads(failure_of(overlay, venv, workspace, server).message) for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_the_network_is_closed_to_forks_and_attempts_have_their_place(
    hostile: Callable[[str], Path], venv: VirtualEnvironment, workspace: Workspace, server: ForkServer
) -> None:
    overlay = hostile("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=1)\n")
    attempts: list[Any] = []
    settings = {"module": "hostile", "generation": "v1", "args": {}, "package": str(overlay), "overlay": str(overlay)}
    with worker_at(overlay, venv, workspace, server) as worker, pytest.raises(StageFailed) as caught:
        attempts.extend(worker.request("load", 60, settings=settings))
    assert caught.value.failure.kind == "network"
    assert attempts == [
        ("network", {"address": "192.0.2.1:80", "stage": "load", "place": {"file": "hostile.py", "line": 2}})
    ]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("import os; os._exit(7)", "the worker ended with exit code 7"),
        ("import ctypes; ctypes.string_at(0)", f"the worker ended with signal {signal.SIGSEGV.value}"),
    ],
)
def test_a_crash_of_a_fork_is_its_own(
    hostile: Callable[[str], Path],
    venv: VirtualEnvironment,
    workspace: Workspace,
    server: ForkServer,
    module: str,
    message: str,
) -> None:
    failure = failure_of(hostile(module), venv, workspace, server)
    assert (failure.kind, failure.message) == ("crash", message)


def test_the_memory_limit_holds_for_forks(
    hostile: Callable[[str], Path], venv: VirtualEnvironment, workspace: Workspace, server: ForkServer
) -> None:
    overlay = hostile("import time\nheld = []\nwhile True: held.append(bytearray(32 * 2**20)); time.sleep(0.01)\n")
    assert failure_of(overlay, venv, workspace, server, memory=900 * 2**20).kind == "memory"


def test_strays_of_a_fork_are_gone_with_it(
    hostile: Callable[[str], Path], venv: VirtualEnvironment, workspace: Workspace, server: ForkServer
) -> None:
    overlay = hostile(SPAWN.format(name="forked") + "raise ValueError('spawned')")
    with worker_at(overlay, venv, workspace, server) as worker:
        with pytest.raises(StageFailed):
            load(worker, overlay)
        family = psutil.Process(worker.pid).children(recursive=True)
        assert len(processes_with("stray-of-forked")) >= 3
        assert len(family) >= 5
    _, alive = psutil.wait_procs(family, GONE_WITHIN)
    assert alive == []


def test_a_fork_outlives_its_server_and_a_lost_server_is_said(
    hostile: Callable[[str], Path], venv: VirtualEnvironment, workspace: Workspace
) -> None:
    overlay = hostile("raise RuntimeError('loaded')")
    with workspace.scratch() as scratch, ForkServer(venv, "v1", 0, scratch) as server:
        assert server.refusal(threading.Event()) == ""
        with worker_at(overlay, venv, workspace, server) as worker:
            for process in psutil.Process(server.pid).children():
                if process.pid != worker.pid:
                    process.kill()
                    process.wait(GONE_WITHIN)
            with pytest.raises(StageFailed, match="loaded"):
                load(worker, overlay)
        with workspace.scratch() as folder:
            arguments = (venv, overlay, folder, Confinement({}), threading.Event(), server)
            with WorkerProcess(*arguments) as worker:
                assert worker.started.how == "fresh"
                assert "fork server" in worker.started.reason


HOST = """
import sys, threading
from pathlib import Path
sys.path.insert(0, {tests!r})
from envops.observe.fork_server import ForkServer
from envops.observe.venv import venv_for
from envops.observe.workspace import Workspace
from sample_packages import load
from test_forked_workers import worker_at
overlay, workspace = Path({overlay!r}), Workspace(Path({root!r}))
venv = venv_for(Path({lock!r}), workspace, threading.Event())
with workspace.scratch() as scratch, ForkServer(venv, "v1", 0, scratch) as server:
    assert server.refusal(threading.Event()) == ""
    with worker_at(overlay, venv, workspace, server) as worker:
        load(worker, overlay, 600)
"""


def test_server_worker_and_strays_are_gone_when_the_host_is_killed(
    hostile: Callable[[str], Path], fresh: Workspace
) -> None:
    overlay = hostile(SPAWN.format(name="forked_orphans") + "while True: pass")
    lock = REPOSITORY / "environments" / EXEMPLARS["v1"] / "requirements.lock"
    tests = str(Path(__file__).parent)
    script = HOST.format(tests=tests, overlay=str(overlay), root=str(fresh.root), lock=str(lock))
    host = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + LOADING_WITHIN
    while len(processes_with("stray-of-forked_orphans")) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    family = psutil.Process(host.pid).children(recursive=True)
    assert len(family) >= 7  # the server, the worker, a warden of each, and strays
    host.kill()
    host.wait()
    _, alive = psutil.wait_procs(family, GONE_WITHIN)
    assert alive == []


def origin_of(package: Package, workspace: Workspace, confinement: Confinement, sharing: int = 2) -> Origin:
    """From what a package's worker would be made."""
    venv = venv_for(package.folder / "requirements.lock", workspace, threading.Event())
    overlay = package.folder / "overlay"
    overlay.mkdir(exist_ok=True)
    with ForkServers(workspace, {venv.folder.name: sharing}, threading.Event()) as servers:
        return servers.origin(venv, package, overlay, confinement)


def test_a_lock_of_one_environment_has_no_server(environments: Path, workspace: Workspace) -> None:
    package = write_package(environments / "alone", "v1", {"module.py": V1})
    assert origin_of(package, workspace, Confinement({}), sharing=1) == Origin()


def test_reasons_for_a_fresh_process_are_said(environments: Path, workspace: Workspace) -> None:
    asking = write_package(
        environments / "asking", "v1", {"module.py": V1}, settings="\n[tool.envops.worker]\nfresh = true\n"
    )
    assert "asks for a fresh process" in origin_of(asking, workspace, Confinement({})).reason
    package = write_package(environments / "secretive", "v1", {"module.py": V1})
    assert "variables are declared" in origin_of(package, workspace, Confinement({"KEY": "1"})).reason
    assert "network" in origin_of(package, workspace, Confinement({}, allow_network=True)).reason
    (package.folder / "overlay/sitecustomize.py").touch()
    assert "sitecustomize.py" in origin_of(package, workspace, Confinement({})).reason


def test_a_wheel_that_hides_a_module_of_verifiers_is_loaded_afresh(environments: Path, workspace: Workspace) -> None:
    package = write_package(environments / "hiding", "v1", {"module.py": V1})
    (package.folder / "overlay/pydantic").mkdir(parents=True)
    assert "pydantic" in origin_of(package, workspace, Confinement({})).reason


LEFT_BEHIND = """
import os, socket, threading
held = []
known = fork_server._descriptors()
{module}
fork_server._refuse_what_no_fork_inherits(known)
from envops_worker.moving import holders_of
holders_of({folder!r})
"""


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (
            "threading.Thread(target=threading.Event().wait, name='ticker', daemon=True).start()",
            "leaves threads behind: ticker",
        ),
        ("held = socket.socket()", "leaves a channel open: socket"),
        ("held.append({('/of/the/server/home', 1)})", "a tuple keeps the path '/of/the/server/home'"),
        ("held.append((1, ('/of/the/server/home',)))", "a tuple keeps the path '/of/the/server/home'"),
        ("held.append((b'/of/the/server/home',))", "a tuple keeps the path b'/of/the/server/home'"),
        ("held.append((os.path.__class__('m'), type('Kept', (str,), {})('/of/the/server/home')))", "a tuple keeps"),
        (
            "import pathlib; held.append((pathlib.Path('/of/the/server/home'),))",
            "a tuple keeps the path PosixPath('/of/the/server/home')",
        ),
    ],
    ids=["thread", "socket", "path", "nested", "bytes", "kind of text", "path object"],
)
def test_what_an_import_leaves_behind_and_no_fork_can_have_is_said(module: str, said: str) -> None:
    start = PACKAGE.replace("from envops_worker.warden import begin", "from envops_worker import fork_server")
    script = start + LEFT_BEHIND.format(module=module, folder="/of/the/server")
    done = subprocess.run([sys.executable, "-c", script, WORKER_FOLDER], capture_output=True, text=True)
    assert said in done.stderr


def test_verifiers_that_does_not_import_is_said(tmp_path: Path, workspace: Workspace) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    with workspace.scratch() as scratch, ForkServer(VirtualEnvironment(tmp_path), "v1", 0, scratch) as server:
        assert server.refusal(threading.Event()) == "No module named 'verifiers'"
