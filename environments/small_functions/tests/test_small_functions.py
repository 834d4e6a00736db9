"""What the exercises promise, and what the sandbox does with hostile code."""

import asyncio
from itertools import islice

import pytest
import verifiers.v1 as vf
from small_functions.functions import exercises
from small_functions.sandbox import called
from small_functions.taskset import final_code, share
from verifiers.v1.runtimes import make_runtime


def run(code: str, inputs: list[list[int]]) -> list[str | None]:
    async def in_runtime() -> list[str | None]:
        runtime = make_runtime(vf.SubprocessConfig(), name=f"test-{abs(hash(code))}")
        await runtime.start()
        try:
            return await called(code, inputs, runtime)
        finally:
            await runtime.stop()

    return asyncio.run(in_runtime())


def test_the_same_seed_makes_the_same_exercises():
    assert list(islice(exercises(3), 50)) == list(islice(exercises(3), 50))


def test_no_exercise_is_made_twice():
    told = [exercise.description for exercise in islice(exercises(0), 300)]
    assert len(set(told)) == len(told)


def test_every_exercise_asks_about_the_empty_list():
    assert all(exercise.inputs[0] == [] and exercise.outputs[0] == 0 for exercise in islice(exercises(0), 50))


def test_what_a_function_returns():
    assert run("def solve(numbers):\n    return len(numbers)", [[], [1], [1, 2]]) == ["0", "1", "2"]


@pytest.mark.parametrize("returned", ["1.0", "True", "'1'", "None", "[1]"])
def test_only_whole_numbers_are_right(returned: str):
    assert share(run(f"def solve(numbers):\n    return {returned}", [[]]), [1]) == 0


def test_an_input_for_which_the_function_raises_has_no_result():
    assert run("def solve(numbers):\n    return 6 // numbers[0]", [[2], [0], [1]]) == ["3", None, "6"]


HOSTILE = {
    "never ends": "while True: pass",
    "takes all memory": "held = [bytearray(1 << 28) for _ in range(64)]",
    "leaves": "raise SystemExit(0)",
    "leaves at once": "import os\nos._exit(0)",
    "starts a program": "import subprocess\nsubprocess.run(['true'])",
    "starts a shell": "import os\nassert os.system('true') == 0",
    "forks": "import os\nos.fork()",
    "opens a socket": "import socket\nsocket.socket().connect(('127.0.0.1', 9))",
    "writes a file elsewhere": "open('/tmp/written', 'w')",
    "reads a file": "open('/etc/passwd')",
    "reads the package": "import small_functions",
    "signals": "import os\nos.kill(os.getppid(), 15)",
    "recurses": "def again(): again()\nagain()",
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_hostile_code_gets_no_result_and_does_no_harm(code: str):
    assert run(f"{code}\ndef solve(numbers):\n    return 0", [[], [1]]) in ([], [None, None])


def test_a_sandbox_does_not_hand_on_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "7")
    code = "import os\ndef solve(numbers):\n    return int(os.environ.get('SOME_API_KEY', 0))"
    assert run(code, [[]]) == ["0"]


@pytest.mark.parametrize("fence", ["```python\n{}\n```", "```\n{}\n```", "{}"])
def test_a_fence_around_the_code_does_no_harm(fence: str):
    code = "def solve(numbers):\n    return 0"
    assert final_code(f"<think>Hm.</think><answer>\n{fence.format(code)}\n</answer>") == code
