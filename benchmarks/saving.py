"""From a save to the verdicts: `validate --watch` of an exemplar whose reward code is saved again and again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
SAVES = 5
_STEP = re.compile(r"^ +([\d.]+) s  (schema|rewards|smoke|distribution) +(pass|no error so far)(?: so far;.*)?$")
_LAST = re.compile(r"^ +([\d.]+) s  [\w-]+: pass$")


def seconds_after_a_save(name: str) -> dict[str, float]:
    """Median seconds from a save to each gate, to the first replies, and to the end."""
    folder = name.replace("-", "_")
    with tempfile.TemporaryDirectory(prefix="envwright-saving-") as made:
        root = Path(made)
        shutil.copytree(ROOT / "environments" / folder, root / "environments" / folder)
        (root / "registry.yaml").write_text(f"version: 1\nowner: acme\nenvironments:\n  {name}: {{}}\n")
        source = next((root / "environments" / folder / folder).glob("[!_]*.py"))
        command = [sys.executable, "-m", "envwright", "validate", "--watch", name, "--root", str(root)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), "PYTHONUNBUFFERED": "1"}
        quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **quiet) as program:
            assert program.stdout is not None
            try:
                dict(_steps(program.stdout))
                turns = []
                for number in range(SAVES):
                    source.write_text(f"{source.read_text()}# save {number}\n")
                    turns.append(dict(_steps(program.stdout)))
            finally:
                program.send_signal(signal.SIGINT)
        return {step: statistics.median(turn[step] for turn in turns) for step in turns[0]}


def _steps(lines: IO[str]) -> Iterator[tuple[str, float]]:
    """The steps of one validation, until its end."""
    for line in lines:
        if step := _STEP.match(line):
            yield ("replies" if step[3] != "pass" else step[2]), float(step[1])
        elif last := _LAST.match(line):
            yield "all", float(last[1])
            return
    raise SystemExit("validate --watch ended, or the environment did not pass")


def described(seconds: Mapping[str, float]) -> str:
    """All steps in one line."""
    return ", ".join(f"{step} {value:.1f} s" for step, value in seconds.items())


if __name__ == "__main__":
    print(described(seconds_after_a_save(sys.argv[1])))
