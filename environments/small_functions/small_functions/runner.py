"""Calls a function that a model wrote, in a process of its own with limits: a script for a runtime, never imported.

Calls `solve` of answer.py with each of the inputs in inputs.json, and writes what came back to result.json, null where
that is no whole number. What it should have been is not here to be found.
"""

import importlib.util
import json
import os
import resource
import sys

LIMITS = {
    "RLIMIT_CPU": 2,  # seconds
    "RLIMIT_AS": 512 << 20,  # bytes of memory
    "RLIMIT_FSIZE": 64 << 10,  # bytes of a file, and of the result
    "RLIMIT_NOFILE": 16,
    "RLIMIT_NPROC": 0,
    "RLIMIT_CORE": 0,
}
ANSWER = os.path.abspath("answer.py")  # noqa: PTH100 - as little as can be is imported before the limits
READ_ONLY = {"os.listdir", "os.scandir"}
FORBIDDEN = (
    "socket.",
    "subprocess.",
    "os.",
    "ctypes.",
    "shutil.",
    "pty.",
    "signal.",
    "syslog.",
    "mmap.",
    "gc.",
    "sys._",
)


def forbid(event: str, arguments: tuple[object, ...]) -> None:
    """No programs, no network, no files but those of Python itself."""
    library = (sys.base_prefix, sys.base_exec_prefix)
    if event.startswith(FORBIDDEN) and event not in READ_ONLY:
        raise PermissionError(f"{event} is not allowed here")
    if event == "open" and not (arguments[1] in ("r", "rb") and str(arguments[0]).startswith((*library, ANSWER))):
        raise PermissionError("files are not allowed here")


def main() -> None:
    with open("inputs.json") as file:  # noqa: PTH123
        inputs = json.load(file)
    out = open("result.json", "w")  # noqa: PTH123, SIM115
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    for name, most in LIMITS.items():
        resource.setrlimit(getattr(resource, name), (most, most))
    write, done = out.write, out.flush
    dumps, leave = json.dumps, os._exit
    sys.dont_write_bytecode = True
    sys.addaudithook(forbid)
    results: list[int | None] = []
    spec = importlib.util.spec_from_file_location("answer", ANSWER)
    answer = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(answer)
        for numbers in inputs:
            value = answer.solve(numbers)
            results.append(value if type(value) is int else None)
    except BaseException:  # a function that raises, or asks to leave, has no result
        pass
    write(dumps(results))
    done()
    leave(0)


main()
