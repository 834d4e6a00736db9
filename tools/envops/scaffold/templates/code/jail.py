"""Runs a program that nobody trusts: `python3 -I -S jail.py`, in a folder with job.json, which names what to run.

Limits on time, memory, output and open files hold everywhere. On Linux the kernel also refuses processes, network,
signals and every file but this folder and Python's own library (Landlock, seccomp, no capabilities); where it cannot,
nothing is run. Elsewhere an audit hook refuses the same, which stops mistakes and not a determined attacker: there,
evaluate in a container.
"""

# pathlib takes as long to import as everything else here
# ruff: noqa: PTH100, PTH109, PTH112, PTH118, PTH123, PTH208

import ctypes
import json
import os
import platform
import resource
import struct
import sys
import sysconfig

SECONDS, MEMORY, OUTPUT, FILES = 2, 512 * 2**20, 2**20, 32
HERE = os.getcwd()
# fork, processes, sockets, signals, other processes' memory, limits, and ways around the filter itself
REFUSED = {
    "x86_64": (0xC000003E, (41, 53, 56, 57, 58, 59, 62, 90, 91, 101, 160, 200, 234, 268, 272, 298, 302, 308, 310, 311,
                            322, 424, 425, 434, 435, 438, 452)),
    "aarch64": (0xC00000B7, (52, 53, 97, 117, 129, 130, 131, 164, 198, 199, 220, 241, 261, 268, 270, 271, 281, 424, 425,
                             434, 435, 438, 452)),
}  # fmt: skip
FORBIDDEN = ("socket.", "subprocess.", "os.fork", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.kill",
             "ctypes.", "pty.", "signal.pthread_kill")  # fmt: skip
LIBC = ctypes.CDLL(None, use_errno=True)


def kernel(what: str, result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: this kernel cannot confine a program; evaluate in a container")
    return result


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
    found = [sysconfig.get_path("platstdlib"), sysconfig.get_path("stdlib")]
    parts = [os.path.join(folder, name) for folder in dict.fromkeys(found) for name in os.listdir(folder)]
    return [part for part in parts if not part.endswith(("site-packages", "dist-packages"))]


def confine() -> None:
    """Refuse files elsewhere (Landlock), all capabilities and the system calls above (seccomp)."""
    kernel("no_new_privs", LIBC.prctl(38, 1, 0, 0, 0))
    everything = (1 << 13) - 1
    rules = ctypes.create_string_buffer(struct.pack("Q", everything))
    ruleset = kernel("Landlock", LIBC.syscall(444, rules, 8, 0))
    for path, access in [(HERE, everything), *((part, 0b1100) for part in library())]:
        handle = os.open(path, os.O_PATH)
        allowed = access if os.path.isdir(path) else access & 0b111
        rule = ctypes.create_string_buffer(struct.pack("<Qi", allowed, handle))
        kernel("Landlock", LIBC.syscall(445, ruleset, 1, rule, 0))
        os.close(handle)
    kernel("Landlock", LIBC.syscall(446, ruleset, 0))
    os.close(ruleset)
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    kernel("capset", LIBC.capset(header, nothing))
    architecture, refused = REFUSED[platform.machine()]
    steps = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, 0x80000000), (0x20, 0, 0, 0)]
    steps += [(0x15, len(refused) - index, 0, number) for index, number in enumerate(refused)]
    steps += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    kernel("seccomp", LIBC.prctl(22, 2, program, 0, 0))


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(FORBIDDEN):
        raise PermissionError(f"{event} is not allowed here")
    if event == "open" and isinstance(arguments[0], str) and not allowed(os.path.abspath(arguments[0])):
        raise PermissionError(f"{arguments[0]} is not to be read here")


def allowed(path: str) -> bool:
    return path.startswith((HERE + os.sep, *LIBRARY))


def run(program: str, calls: list[str]) -> list[str | None]:
    """What each call gives once the program has run, as Python writes it; None for one that raises."""
    names: dict[str, object] = {"__name__": "__main__"}
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
    LIBRARY = tuple(library())
    limit()
    os.dup2(os.open("input", os.O_RDONLY), 0)
    os.dup2(os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    if sys.platform == "linux":
        confine()
    else:
        sys.addaudithook(watch)
    found = run(job["program"], job["calls"])
    with open("values.json", "w", encoding="utf-8") as file:
        json.dump(found, file)
