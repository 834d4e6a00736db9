"""What a process of an environment's virtual environment begins as, and the loop in which it answers requests."""

from __future__ import annotations

import importlib
import json
import logging
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from envops_worker import tool_servers
from envops_worker.channel import Channel, Request
from envops_worker.confinement import NetworkGuard, prefer_to_be_killed
from envops_worker.failures import Sources, said_as_exception
from envops_worker.imported import collector_at_rest, draw_anew, import_verifiers
from envops_worker.moving import move, paths_below
from envops_worker.session import Session
from envops_worker.supervisor import fork_worker
from envops_worker.template import Template, open_descriptors, reason_not_to_fork, settle

START = "ENVOPS_START"
"""The variable that says what a new process is to be, as JSON: its role, and what goes with that."""
ROOM_BYTES = 256 * 2**20
"""What the disk must have left for bytecode to be written: verifiers needs 45 MB."""
OPERATIONS = (
    "load",
    "tasks",
    "template",
    "rewards",
    "cases",
    "validation",
    "tests",
    "mutation",
    "harness",
    "evaluate",
    "endpoint",
    "listing",
    "rescore",
    "reply",
    "invariants",
    "search",
)
"""Each is a module of `operations` with a function `answer(session, request)`, imported when it is first asked for."""

STAGES = {"cases": "rewards", "template": "load"}
"""The stage of an operation, where it has another name."""


def main() -> NoReturn:
    """Be what the host started this process for: a lock template, a base, or a worker that loads by itself."""
    start = json.loads(os.environ.pop(START))
    if start["role"] == "worker":
        _work(None, start)
    guard = NetworkGuard(Sources(), allowed=start["allow_network"])
    guard.watch()
    control = socket.socket(fileno=start["control"])
    control.set_inheritable(False)
    if start["role"] == "base":
        _import_everything(control, start["generation"])
        _be_base(guard, control)
    _be_lock_template(guard, control, start["generation"])


def _be_lock_template(guard: NetworkGuard, control: socket.socket, generation: str) -> NoReturn:
    """Import verifiers and fork a base for each environment, under a supervisor of its own."""
    # Python 3.11 keeps bytecode that a full disk cut short, and every later import of it fails.
    sys.dont_write_bytecode = shutil.disk_usage(sys.prefix).free < ROOM_BYTES
    _import_everything(control, generation)
    remembered = paths_below(str(Path(os.environ["HOME"]).parent))
    request = Template(control, adopts=True).serve()
    os.setsid()
    fork_worker(request.descriptors["supervised"])
    settings = request.settings
    os.environ.clear()
    os.environ.update(settings["environment"])
    os.chdir(settings["folder"])
    move(remembered, settings["folder"])
    sys.path.insert(0, settings["overlay"])
    importlib.invalidate_caches()
    _be_base(guard, socket.socket(fileno=request.descriptors["control"]))


def _import_everything(control: socket.socket, generation: str) -> None:
    """Import verifiers and what its environments are asked with; tell the host whether forks are sound.

    An import that fails fails again when the environment is loaded, and is reported there.
    """
    known = open_descriptors()
    with suppress(Exception, SystemExit), collector_at_rest():
        importlib.import_module("envops_worker.operations.load")
        import_verifiers(generation)
        importlib.import_module(f"envops_worker.adapters.{generation}")
        importlib.import_module("envops_worker.endpoint.server")
        for operation in OPERATIONS:
            importlib.import_module(f"envops_worker.operations.{operation}")
    sys.dont_write_bytecode = True  # nothing of an environment's may write where others import from
    settle()
    reason = reason_not_to_fork(known)
    control.send(json.dumps({"refusal": reason}).encode())
    if reason:
        os._exit(0)


def _be_base(guard: NetworkGuard, control: socket.socket) -> NoReturn:
    """Fork what one environment needs from before it is loaded: its template, tool servers, jobs that load alone."""
    inside, for_forks = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = Template(control, inside).serve()
    request.take_place()
    draw_anew()
    if "module" in request.settings:
        tool_servers.run_module(request.settings)
    tool_servers.connect(for_forks)
    _work(guard, request.descriptors)


def _work(guard: NetworkGuard | None, descriptors: Mapping[str, Any]) -> NoReturn:
    """Answer requests; where the host makes this an environment template, go on with that in each of its forks."""
    prefer_to_be_killed()
    logging.disable(logging.CRITICAL)
    session = Session(Channel.over_standard_streams(descriptors.get("status")), guard)
    _answer_all(session)
    if session.is_template:
        request = Template(socket.socket(fileno=descriptors["control"])).serve()
        request.take_place()
        draw_anew()
        session.channel.close()
        session.channel = Channel.over_standard_streams(request.descriptors.get("status"))
        session.is_template = False
        _answer_all(session)
    session.close()
    sys.stderr.flush()
    os._exit(0)  # not stopped by threads and event loops of the environment


def _answer_all(session: Session) -> None:
    """Answer requests until the host closes the channel or makes this a template."""
    for request in session.channel.requests():
        answer(session, request)
        if session.is_template:
            return


def answer(session: Session, request: Request) -> None:
    """Answer one request; whatever the environment's code raises, the answer has an end."""
    failure: BaseException | None = None
    session.enter(str(request.get("stage") or STAGES.get(request["operation"], request["operation"])))
    try:
        if request["operation"] not in OPERATIONS:
            raise LookupError(f"no operation is called {request['operation']!r}")
        importlib.import_module(f"envops_worker.operations.{request['operation']}").answer(session, request)
    except BaseException as error:
        failure = said_as_exception(error)
    session.report_network()
    if failure is None:
        session.channel.done()
    else:
        session.channel.failed(session.sources.failure(failure))
