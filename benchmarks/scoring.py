"""Replies scored per second: the worker's way beside a plain loop over verifiers' own scoring.

Runs inside an environment's virtual environment: `python scoring.py WORKER_FOLDER SETTINGS_JSON`,
with the built wheel on the path, and prints one JSON object.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import runpy
import sys
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 7
TASKS = 100
SECONDS_PER_REPLY = 10.0


def main(worker_folder: str, settings: dict[str, Any]) -> None:
    """Score the oracle's reply on 100 tasks both ways, in turn; the best round of each counts."""
    runpy.run_path(f"{worker_folder}/make_importable.py")
    from envwright_worker.channel import Channel
    from envwright_worker.confinement import NetworkGuard
    from envwright_worker.failures import Sources
    from envwright_worker.main import answer
    from envwright_worker.session import Session

    session = Session(Channel(io.BytesIO(), io.BytesIO()), NetworkGuard(Sources(), allowed=False))
    answer(session, {"operation": "load", "settings": settings})
    answer(session, {"operation": "tasks", "keep": TASKS})
    pairs = [(task, [session.policies.oracle.reply(task.data, task.prompt)]) for task in session.kept.values()]
    plain = plain_v1 if settings["generation"] == "v1" else plain_v0(settings)

    def ours() -> None:
        for task, completion in pairs:
            session.run(session.adapter.score(task, [completion]), SECONDS_PER_REPLY)

    def plainly() -> None:
        session.loop.run_until_complete(plain(pairs))

    best = {"plain": 0.0, "worker": 0.0}
    for _ in range(ROUNDS):
        for name, work in (("plain", plainly), ("worker", ours)):
            best[name] = max(best[name], len(pairs) / seconds_of(work))
    print(json.dumps(best))


def seconds_of(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


async def plain_v1(pairs: list[Any]) -> None:
    """What a user writes: a trace by hand and the task's own `score`."""
    import verifiers.v1 as vf
    from verifiers.v1.state import state_cls

    for view, completion in pairs:
        task = view.native
        recorded = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        agent = vf.AgentInfo(config=vf.AgentConfig(runtime=vf.SubprocessConfig()))
        trace = vf.Trace(task=recorded, state=state_cls(type(task))(), agent=agent)
        trace.nodes.append(vf.MessageNode(parent=None, message=vf.UserMessage(content=task.data.prompt), sampled=False))
        content = vf.AssistantMessage(content=completion[0]["content"])
        trace.nodes.append(vf.MessageNode(parent=0, message=content, sampled=True))
        await task.score(trace)


def plain_v0(settings: dict[str, Any]) -> Callable[[list[Any]], Any]:
    """What a user writes: a state by hand and the rubric's own `score_group`."""
    from verifiers.clients import resolve_client
    from verifiers.types import ClientConfig
    from verifiers.utils.message_utils import normalize_messages

    environment = importlib.import_module(settings["module"]).load_environment(**settings["args"])
    client = resolve_client(ClientConfig(api_base_url="http://127.0.0.1:9/v1", api_key_var="NONE"))

    async def plain(pairs: list[Any]) -> None:
        for view, completion in pairs:
            state = await environment.init_state(dict(view.native), client, "plain", {})
            state = await environment.setup_state(state) or state
            state["completion"] = normalize_messages(completion)
            await environment.rubric.score_group([state])

    return plain


if __name__ == "__main__":
    asyncio.set_event_loop(asyncio.new_event_loop())
    main(sys.argv[1], json.loads(sys.argv[2]))
