"""From registry.yaml to the page that answers for a run: trained, served and compared on a CPU, with a tiny model."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.e2e, pytest.mark.torch]
FOLDERS = {"reverse-text": "reverse_text", "alphabet-sort": "alphabet_sort"}
"""One reply, and several turns."""
RUN = """\
  {name}-here:
    backend: trl
    model: ./tiny
    environments: [{{id: {name}}}]
    max_steps: 2
    batch_size: 8
    group_size: 4
    learning_rate: 1.0e-3
    lora: {{rank: 4, alpha: 8}}
    seq_len: 2000
    sampling: {{max_tokens: 12}}
    gpus: {{train: 1}}
    budget: {{max_gpu_hours: 1, gpu_hour_price: 2.0}}
    goal: {{smallest_effect: 0.1, recording: base--eval, patience: 3}}
    baseline: {{none: "a random model has nothing to learn from"}}
"""


@contextmanager
def served_base(model: Path) -> Iterator[str]:
    """The base model at an address of loopback, by the server that also serves results without vLLM."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port = tried.getsockname()[1]
    command = [sys.executable, "-m", "envwright_learner.served_result", str(model), "tiny", str(port)]
    server = subprocess.Popen(command, env=variables())
    try:
        for _ in range(600):
            assert server.poll() is None
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def variables() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "tools"), "OMP_NUM_THREADS": "1", "LOCAL_API_KEY": "x"}


@pytest.mark.parametrize("name", FOLDERS)
def test_run_is_answered_for_from_registry_to_page(name: str, tiny_model: Path, tmp_path: Path) -> None:
    root = tmp_path / "repository"
    shutil.copytree(ROOT / "environments" / FOLDERS[name], root / "environments" / FOLDERS[name])
    shutil.copytree(tiny_model, root / "tiny")
    entry = f"  {name}: {{eval: {{args: {{seed: 1}}}}}}\n"
    (root / "registry.yaml").write_text(
        f"version: 1\nowner: acme\nenvironments:\n{entry}runs:\n{RUN.format(name=name)}", encoding="utf-8"
    )
    (root / "configs").mkdir()

    def envwright(*words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "envwright", *words, "--root", str(root)]
        done = subprocess.run(command, cwd=root, env=variables(), capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    with served_base(tiny_model) as url:
        (root / "configs" / "endpoints.toml").write_text(
            f'[[endpoint]]\nendpoint_id = "base"\nmodel = "tiny"\nurl = "{url}"\nkey = "LOCAL_API_KEY"\n'
            "max_tokens = 12\ninput_price = 0.0\noutput_price = 0.0\n",
            encoding="utf-8",
        )
        envwright("record", name, "--model", "base", "--split", "eval", "-n", "8", "-r", "2", "-q")
    run = f"{name}-here"
    assert f"envwright train {run}" in envwright("train", "result", run, code=2), "it was not trained yet"
    envwright("train", "compile")
    envwright("train", run)
    registry = (root / "registry.yaml").read_text(encoding="utf-8")
    (root / "registry.yaml").write_text(registry.replace("smallest_effect: 0.1", "smallest_effect: 0.9"))

    shown = envwright("train", "result", run, code=3)
    report = json.loads((root / "reports" / "runs" / f"{run}.json").read_bytes())
    answer = report["answer"]
    assert answer["answer"] == "undecided", shown
    assert answer["fixed"]["smallest effect"] == "0.1 of the range", "the goal of the start counts"
    assert answer["fixed_where"] == f"outputs/{run}/preregistration.json"
    (environment,) = answer["environments"]
    assert environment["comparison"]["split"] == "eval"
    assert environment["comparison"]["tasks_count"] == 8
    assert any(each.startswith("rewarded replies (0 of 20") for each in report["not_judged"]), "its rollouts were read"
    page = (root / "reports" / "runs" / f"{run}.html").read_text(encoding="utf-8")
    assert f"Training run {run}" in page
    again = envwright("train", "result", run, "--format", "json", code=3)
    assert "is whole" not in again, "the comparison is kept: nothing is served again"
