"""Run by a Python that has a checkout of prime-rl: rollouts of a run, as prime-rl's monitors write and upload them.

    python in_prime_rl_rollouts.py record    one JSON object: file → its lines, and the rows of an uploaded step

The conversations are made up here. Episodes and traces are verifiers', `FileMonitor` writes the files, and
`episodes_to_parquet_bytes` makes the rows that a hosted run uploads.
"""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import verifiers.v1 as vf
from prime_rl.configs.monitors import FileMonitorConfig
from prime_rl.monitors.file import FileMonitor
from prime_rl.monitors.prime import episodes_to_parquet_bytes

NOW = {"created_at"}
"""Columns with the time of the record."""


def trace(number: int, messages: list[dict[str, Any]], reward: float | None, agent: str, failed: bool) -> vf.Trace:
    """A trace of one conversation; messages of the assistant were sampled, one token each."""
    nodes = [
        {
            "parent": place - 1 if place else None,
            "message": message,
            "sampled": message["role"] == "assistant",
            "timestamp": 0.0,
            "token_ids": [place],
            "mask": [message["role"] == "assistant"],
            "logprobs": [-0.5] if message["role"] == "assistant" else [],
        }
        for place, message in enumerate(messages)
    ]
    return vf.Trace(
        id=f"trace-{number}-{agent}",
        verifiers={"version": "0"},
        task={"type": "Sum", "data": data(number), "key": f"key-{number}"},
        agent={"config": {}, "name": agent, "trainable": agent != "judge"},
        nodes=nodes,
        calls=[{"node": place, "finish_reason": "stop"} for place, node in enumerate(nodes) if node["sampled"]],
        rewards={"exact": None if reward is None else {"score": reward, "weight": 1.0}},
        metrics={"proof_holds": None if reward is None else reward / 2},
        ok=not failed,
        is_completed=not failed,
        errors=[{"type": "SandboxError", "message": "gone"}] if failed else [],
        timing={"start": 0.0},
    )


def data(number: int) -> vf.WireTaskData:
    """A task with its own answer."""
    return vf.WireTaskData.model_validate(
        {
            "idx": number,
            "prompt": f"What is {number} + {number}?",
            "system_prompt": "Be brief.",
            "answer": f"{2 * number}",
        }
    )


def episode(number: int, step: int, kind: str, traces: list[vf.Trace], failed: bool = False) -> vf.Episode:
    """An episode as the orchestrator stamps it."""
    return vf.Episode(
        id=f"episode-{kind}-{step}-{number}",
        env={"id": "acme/sums", "name": "sums"},
        task={"type": "Sum", "data": data(number), "key": f"key-{number}"},
        group={"id": f"{kind}-{step}-{number}"},
        run={
            "type": "train",
            "id": "run",
            "work": {"type": kind, "step": step, "policy": {"start": step, "end": step}},
        },
        ok=not failed,
        errors=[{"type": "SandboxError", "message": "gone"}] if failed else [],
        traces=traces,
    )


def asked(number: int) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"What is {number} + {number}?"},
    ]


def episodes(step: int, kind: str) -> list[vf.Episode]:
    """A right reply, a conversation with a tool, two agents, one that broke, and one without a trace."""
    call = {"id": "1", "name": "add", "arguments": '{"a": 2, "b": 2}'}
    with_tool = [
        *asked(2),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
        {"role": "assistant", "content": "<answer>4</answer>", "reasoning_content": "The tool says 4."},
    ]
    right = [*asked(1), {"role": "assistant", "content": "<answer>2</answer>"}]
    judged = [{"role": "user", "content": "Is 6 right?"}, {"role": "assistant", "content": "yes"}]
    told = [*asked(3), {"role": "assistant", "content": "<answer>6</answer>"}]
    return [
        episode(1, step, kind, [trace(1, right, 1.0, "agent", False)]),
        episode(2, step, kind, [trace(2, with_tool, 1.0, "agent", False)]),
        episode(3, step, kind, [trace(3, told, 0.5, "solver", False), trace(3, judged, 0.0, "judge", False)]),
        episode(4, step, kind, [trace(4, asked(4), None, "agent", True)], failed=True),
        episode(5, step, kind, [], failed=True),
    ]


async def written(folder: Path) -> None:
    """A step of training and an evaluation, by prime-rl's own monitor."""
    monitor = FileMonitor(FileMonitorConfig())
    await monitor.init(folder)
    every = episodes(1, "train")
    for each in every:
        await monitor.log(each, step=1, kind="train", subset="all")
    await monitor.log(every[:3], step=1, kind="train", subset="effective")
    await monitor.log(episodes(1, "eval")[:1], step=1, kind="eval", subset="all")
    await monitor.finalize()


def record() -> dict[str, Any]:
    """The files below the run's folder, and the rows of an upload as an API returns them."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(written(Path(folder)))
        files = {
            str(path.relative_to(folder)): path.read_text("utf-8").splitlines()
            for path in sorted(Path(folder).rglob("traces.jsonl"))
        }
    packed = episodes_to_parquet_bytes(episodes(10, "train")[:1], "run", 10)
    assert packed is not None
    rows = pq.read_table(io.BytesIO(packed)).to_pylist()
    return {"files": files, "uploaded": [{key: row[key] for key in row if key not in NOW} for row in rows]}


if __name__ == "__main__":
    print(json.dumps(record()))
