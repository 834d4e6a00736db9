"""Runs a model's code where it can do no harm: in a runtime of verifiers, in a process with limits."""

import asyncio
import json
import sys
from pathlib import Path

import verifiers.v1 as vf

RUNNER = Path(__file__).with_name("runner.py").read_bytes()
SECONDS = 10.0  # by the clock; the process itself may compute for 2
MOST_BYTES = 64 << 10


async def called(code: str, inputs: list[list[int]], runtime: vf.Runtime) -> list[int | None]:
    """What `solve` of the code returns for each input, as far as it came; None where that is no whole number."""
    python = sys.executable if runtime.config.type == "subprocess" else "python3"
    await runtime.write("runner.py", RUNNER)
    await runtime.write("answer.py", code.encode())
    await runtime.write("inputs.json", json.dumps(inputs).encode())
    await runtime.write("result.json", b"[]")
    try:
        async with asyncio.timeout(SECONDS):
            await runtime.run([python, "-I", "-S", "runner.py"], {})
        return list(json.loads(await runtime.read("result.json", MOST_BYTES)))
    except (TimeoutError, ValueError, vf.SandboxError):
        return []
