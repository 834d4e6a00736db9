"""The decisions of a probe, and its steps across an interruption; torch is needed to import them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_repository import edit, envwright, small_repository

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("after", "change", "outcome"),
    [
        ((0.5, 0.4, 0.6), 0.0, "learned"),
        ((0.2, 0.05, 0.3), 0.0, "not learned"),
        ((0.5, 0.4, 0.6), 1e-9, "control moved"),
    ],
)
def test_outcome_of_a_probe(after: tuple[float, float, float], change: float, outcome: str) -> None:
    from envwright.statistics.intervals import Estimate
    from envwright_learner.probe import ProbeResult

    before = Estimate(0.1, 0.05, 0.15)
    assert ProbeResult(before, Estimate(*after), (), change, 0.0, 1, 1).outcome == outcome


@pytest.mark.parametrize("count", [2, 6, 512])
def test_tasks_of_training_and_measurement_are_disjoint(count: int) -> None:
    from envwright_learner.probe import divided

    training, held_out = divided(range(count), seed=0)
    assert sorted([*training, *held_out]) == list(range(count))
    assert training
    assert held_out


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [([1.0] * 64, "all 64 rollouts .* earned 1, and a constant reward"), ([], "no rollout .* was scored")],
)
def test_constant_reward_is_refused(rewards: list[float], expected: str) -> None:
    from envwright_learner.probe import refuse_constant_reward
    from envwright_learner.probe_vocabulary import NotForAProbe

    with pytest.raises(NotForAProbe, match=expected):
        refuse_constant_reward(rewards)
    refuse_constant_reward([0.0, 1.0])


@pytest.mark.parametrize(("tasks", "expected"), [([1, 2, 3], [1, 2, 3] * 3), (list(range(8)), list(range(8)))])
def test_tasks_of_a_step_are_never_too_few(tasks: list[int], expected: list[int]) -> None:
    from envwright_learner.training import for_a_step

    assert for_a_step(tasks, SimpleNamespace(generation_batch_size=128, num_generations=16)) == expected


@pytest.mark.e2e
def test_interrupted_probe_reports_every_step(tmp_path: Path) -> None:
    root = small_repository(tmp_path, "reverse_text")
    command = [sys.executable, "-m", "envwright", "train", "probe", "reverse-text", "--root", str(root)]
    size = ["--format", "json", "--env-args", '{"letters": 5}', "--seconds", "25"]
    first = subprocess.Popen([*command, *size], stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    seen = next(line for line in first.stderr if line.startswith("step    3 "))
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    done = subprocess.run([*command, *size], capture_output=True, text=True, check=False)
    steps = [step["step"] for step in json.loads(done.stdout)["steps"]]
    assert len(steps) > 3, seen
    assert steps == list(range(1, len(steps) + 1))


@pytest.mark.e2e
def test_probe_without_rewards_ends_with_a_message(tmp_path: Path) -> None:
    root = small_repository(tmp_path, "reverse_text")
    taskset = root / "environments/reverse_text/reverse_text/taskset.py"
    scored = 'similarity(final_answer(trace.last_reply) or "", self.data.answer)'
    edit(taskset, scored, f"{scored} if final_answer(trace.last_reply) == self.data.answer else 1 / 0")
    done = envwright(root, "train", "probe", "reverse-text", "--seconds", "5", "--env-args", '{"letters": 5}')
    assert "reverse-text could not be probed: none of" in done.stderr
    assert done.returncode == 4
