"""Calling a function that nobody trusts, in the rollout's runtime and behind jail.py."""

import asyncio
import json
import sys
from pathlib import Path

import verifiers.v1 as vf

JAIL = Path(__file__).with_name("jail.py").read_text("utf-8")
SECONDS = 10.0  # by the clock; jail.py limits time on the processor
MOST_BYTES = 200_000


async def called(code: str, inputs: list[list[int]], runtime: vf.Runtime) -> list[str | None]:
    """What `solve` of the code returns for each input, as Python writes it; nothing where the code does not run.

    What it should return stays out here, so no code can give it back.
    """
    job = {"program": code, "calls": [f"solve({numbers})" for numbers in inputs], "input": ""}
    await runtime.write("job.json", json.dumps(job).encode())
    python = sys.executable if runtime.type == "subprocess" else "python3"
    try:
        async with asyncio.timeout(SECONDS):
            done = await runtime.run([python, "-I", "-S", "-c", JAIL], {})
    except TimeoutError:
        return []
    if "cannot confine" in done.stderr:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    try:
        return list(json.loads(await runtime.read("result.json", MOST_BYTES))["values"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError, vf.SandboxError):  # a program can write the file
        return []
