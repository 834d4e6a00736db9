"""After an environment was forked from a lock template, nothing remembers the template's own folder."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from envops.observe.process import Confinement, worker_environment
from envops.observe.starting import PACKAGE, WORKER_FOLDER
from envops.observe.venv import venv_for
from envops.observe.worker.moving import move, paths_below
from sample_packages import EXEMPLARS, REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from envops.observe.workspace import Workspace

FOLDER = "/nowhere/of/any/worker"
KNOWN = {
    "posix.environ": "what the process began with: os.environ, which was made of it, is set anew",
    "sysconfig._CONFIG_VARS['userbase']": "where pip installs for a user: the template runs without user site-packages",
    "site.USER_BASE": "the same",
}
"""What remembers the template's folder all the same, and why that does no harm."""
SEARCH = '''
import gc, os, socket
from pathlib import PurePath
from types import FrameType, ModuleType

from envops_worker import main
from envops_worker.moving import move, paths_below

TEXTS = (str, bytes, PurePath)
NESTED = (tuple, dict, list, set, frozenset)


def import_all(generation):
    """Import what a lock template imports, and forget its folder as a base does."""
    ours, theirs = socket.socketpair()
    main._import_everything(theirs, generation)
    gc.unfreeze()
    folder = os.path.dirname(os.environ["HOME"])
    remembered = paths_below(folder)
    assert remembered, "nothing keeps a path, so that nothing was tried"
    for name, value in list(os.environ.items()):
        os.environ[name] = value.replace(folder, "/elsewhere")
    move(remembered, "/elsewhere")
    return folder


def search(folder):
    """Print each place that remembers the folder."""
    gc.collect()
    own = {id(globals())}
    names = {folder, os.path.realpath(folder)}
    for owner in gc.get_objects():
        if id(owner) not in own and type(owner) is not FrameType:
            for value in texts_of(owner):
                if remembers(value, names):
                    print(place_of(owner, value), flush=True)


def texts_of(owner):
    """Texts that an object refers to, and those in containers that the collector does not list by themselves."""
    for value in gc.get_referents(owner):
        if issubclass(type(value), TEXTS):  # isinstance asks the value, and one that stands for a module imports it
            yield value
        elif type(value) in NESTED and not gc.is_tracked(value):
            yield from texts_of(value)


def remembers(value, names):
    if issubclass(type(value), bytes):
        return any(os.fsencode(name) in value for name in names)
    return any(name in str(value) for name in names)


def place_of(owner, value):
    """The way to an object, as one would write it."""
    keys = [key for key, one in owner.items() if one is value] if type(owner) is dict else []
    for referrer in gc.get_referrers(owner):
        if type(referrer) is ModuleType and keys and vars(referrer) is owner:
            return f"{referrer.__name__}.{keys[0]}"
        if type(referrer) is dict and "__name__" in referrer and "__spec__" in referrer:
            for name, one in referrer.items():
                if one is owner:
                    return f"{referrer['__name__']}.{name}" + "".join(f"[{key!r}]" for key in keys)
        if isinstance(referrer, type) and keys:
            return f"{referrer.__module__}.{referrer.__qualname__}.{keys[0]}"
    return f"a {type(owner).__module__}.{type(owner).__qualname__} {keys} with {value!r}"


search(import_all(sys.argv[1]))
os._exit(0)
'''


@pytest.mark.worker
@pytest.mark.parametrize("generation", EXEMPLARS)
def test_paths_below_real_verifiers_are_all_that_is_remembered(generation: str, workspace: Workspace) -> None:
    stop = threading.Event()
    venv = venv_for(REPOSITORY / "environments" / EXEMPLARS[generation] / "requirements.lock", workspace, stop)
    with workspace.scratch() as scratch:
        done = subprocess.run(
            [venv.python, "-s", "-P", "-c", PACKAGE.rpartition("from envops_worker.supervisor")[0] + SEARCH.replace("sys.argv[1]", repr(generation)), WORKER_FOLDER],
            cwd=scratch,
            env=worker_environment(venv, scratch, scratch, Confinement({})),
            capture_output=True,
            text=True,
            check=False,
        )
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert {line for line in done.stdout.splitlines() if line not in KNOWN} == set()


class StandsForAModule:
    """As libraries have them: whoever asks what it is makes it import what it stands for."""

    @property
    def __class__(self) -> Any:
        raise AssertionError("it was asked what it is")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that keeps paths, and what stands for another module."""
    made: Any = ModuleType("keeps_paths")
    made.cache, made.folder = f"{FOLDER}/cache", PurePosixPath(FOLDER)
    made.other, made.alike, made.lazy = "/elsewhere", f"{FOLDER}s", StandsForAModule()
    monkeypatch.setitem(sys.modules, "keeps_paths", made)
    return made


@pytest.mark.usefixtures("library")
def test_paths_below_what_stands_for_a_module_does_not_ask_what_it_is() -> None:
    assert [(one.name, one.rest, one.kind) for one in paths_below(FOLDER)] == [
        ("cache", "/cache", str),
        ("folder", "", PurePosixPath),
    ]


def test_move_lets_each_keep_the_same_path_below_another_folder(library: Any) -> None:
    move(paths_below(FOLDER), "/new")
    assert (library.cache, library.folder, library.other) == ("/new/cache", PurePosixPath("/new"), "/elsewhere")
    assert library.alike == f"{FOLDER}s"
