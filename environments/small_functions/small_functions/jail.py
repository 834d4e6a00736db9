"""Runs a program that nobody trusts: `python3 -I -S -c JAIL`, in a folder with job.json, which says what to run.

Limits on time, memory, files and their size hold everywhere. On Linux the kernel also refuses processes, network,
signals and every file but this folder and Python's own library (Landlock, seccomp, no capabilities); where it cannot,
nothing is run. Elsewhere an audit hook refuses the same, which stops mistakes and no attacker: there, evaluate in a
container.
"""

# pathlib takes as long to import as everything else here
# ruff: noqa: PTH100, PTH108, PTH109, PTH110, PTH112, PTH118, PTH120, PTH123, PTH208

import ctypes
import io
import json
import os
import resource
import struct
import sys
from contextlib import suppress

SECONDS, MEMORY, OUTPUT, FILES = 2, 512 * 2**20, 2**20, 32
HERE = os.getcwd()
# fork, processes, sockets, signals, modes and owners, other processes' memory, limits, and ways around the filter
REFUSED = {
    "x86_64": (0xC000003E, (41, 53, 56, 57, 58, 59, 62, 90, 91, 101, 160, 200, 234, 268, 272, 298, 302, 308, 310, 311,
                            322, 424, 425, 434, 435, 438, 452)),
    "aarch64": (0xC00000B7, (52, 53, 97, 117, 129, 130, 131, 164, 198, 199, 220, 241, 261, 268, 270, 271, 281, 424, 425,
                             434, 435, 438, 452)),
}  # fmt: skip
FORBIDDEN = ("socket.", "subprocess.", "os.fork", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.kill",
             "ctypes.", "pty.", "signal.pthread_kill")  # fmt: skip


def limit() -> None:
    for what, most in (
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, OUTPUT),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def library() -> list[str]:
    """Python's own modules, without what was installed beside them."""
    folder = os.path.dirname(os.__file__)
    return [os.path.join(folder, name) for name in os.listdir(folder) if not name.endswith("-packages")]


def confine() -> None:
    """Refuse files elsewhere (Landlock), all capabilities and the system calls above (seccomp)."""
    libc = ctypes.CDLL(None, use_errno=True)

    def kernel(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), "this kernel cannot confine a program: evaluate in a container")
        return result

    kernel(libc.prctl(38, 1, 0, 0, 0))
    everything = (1 << 13) - 1
    ruleset = kernel(libc.syscall(444, struct.pack("Q", everything), 8, 0))
    plain = 0b1_1011_1110  # reading, writing, listing, removing and making of files and folders: no links, no pipes
    for path, access in [(HERE, plain), *((part, 0b1100) for part in library())]:
        handle = os.open(path, os.O_PATH)
        rights = access if os.path.isdir(path) else access & 0b111
        kernel(libc.syscall(445, ruleset, 1, struct.pack("<Qi", rights, handle), 0))
        os.close(handle)
    kernel(libc.syscall(446, ruleset, 0))
    os.close(ruleset)
    kernel(libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24)))
    architecture, refused = REFUSED[os.uname().machine]
    steps = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, 0x80000000), (0x20, 0, 0, 0)]
    steps += [(0x15, len(refused) - index, 0, number) for index, number in enumerate(refused)]
    steps += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    kernel(libc.prctl(22, 2, struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)), 0, 0))


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(FORBIDDEN):
        raise PermissionError(f"{event} is not allowed here")
    elsewhere = event == "open" and not os.path.abspath(str(arguments[0])).startswith((HERE + os.sep, *LIBRARY))
    if elsewhere and isinstance(arguments[0], str):
        raise PermissionError(f"{arguments[0]} is not to be read here")


def run(program: str, calls: list[str]) -> list[str | None]:
    """What each call gives once the program has run, as Python writes it; None for one that raises."""
    names: dict[str, object] = {"__name__": "__main__"}
    with suppress(SystemExit):
        exec(compile(program, "program.py", "exec"), names)
    values: list[str | None] = []
    for call in calls:
        try:
            values.append(repr(eval(call, names)))
        except Exception:
            values.append(None)
    return values


if __name__ == "__main__":
    with open("job.json", encoding="utf-8") as file:
        job = json.load(file)
    if os.path.exists("result.json"):
        os.unlink("result.json")
    LIBRARY = tuple(library())
    nothing = os.open(os.devnull, os.O_WRONLY)
    limit()
    if sys.platform == "linux":
        confine()
    else:
        sys.addaudithook(watch)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    sys.stdin, sys.stdout = io.StringIO(job["input"]), io.StringIO()
    printed = sys.stdout
    found = run(job["program"], job["calls"])
    with open("result.json", "w", encoding="utf-8") as file:
        json.dump({"values": found, "printed": printed.getvalue()}, file)
