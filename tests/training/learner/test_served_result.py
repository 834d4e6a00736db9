"""The result of a run on this machine, served without vLLM: what its replies are, and a comparison with its base."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_training import ENVIRONMENT, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.torch]
REGISTRY = """\
version: 1
owner: acme
environments: {reverse-text: {}}
runs:
  here:
    backend: trl
    model: ./tiny
    environments: [{id: reverse-text}]
    max_steps: 2
    batch_size: 4
    group_size: 4
    learning_rate: 1.0e-3
    lora: {rank: 4, alpha: 8}
    sampling: {max_tokens: 8}
"""
HEARD = ((5, 6, 7, 8, 9), (40, 41, 42))


def test_served_adapter_replies_as_transformers_does(tiny_model: Path, tmp_path: Path) -> None:
    """Each request has its own limit and temperature; an adapter that changes nothing would not show."""
    import torch
    from envwright_learner.served_result import loaded_result, sampler
    from envwright_learner.serving import SamplingRequest
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(base, config).save_pretrained(tmp_path)
    expected = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_model), tmp_path).eval()
    requests = [SamplingRequest(heard, 0.0, most) for heard, most in zip(HEARD, (7, 4), strict=True)]
    requests.append(SamplingRequest(HEARD[0], 5.0, 7))
    served = sampler(loaded_result(str(tiny_model), tmp_path))(requests)
    plain = sampler(loaded_result(str(tiny_model), None))(requests)
    for request, (tokens, _) in zip(requests[:2], served, strict=False):
        whole = expected.generate(
            torch.tensor([request.heard]), max_new_tokens=request.most, do_sample=False, use_cache=True
        )
        assert list(tokens) == whole[0, len(request.heard) :].tolist()
    assert served[0][0] != served[2][0]
    assert served[0][0] != plain[0][0]


def test_result_of_local_run_is_compared_with_its_base(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "environments" / "reverse_text", tmp_path / "environments" / "reverse_text")
    shutil.copytree(tiny_model, tmp_path / "tiny")
    (tmp_path / "registry.yaml").write_text(REGISTRY)

    def envwright(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "envwright", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    for arguments in (("train", "compile"), ("train", "here")):
        done = envwright(*arguments)
        assert done.returncode == 0, done.stderr
    sizes = ("-n", "6", "-r", "1", "--format", "json", "--quiet")
    compared = envwright("compare", "reverse-text", "--before", "base", "--after", "run:here", *sizes)
    assert compared.returncode == 3, compared.stderr  # two models that know nothing
    for side, step in (("before", 0), ("after", 2)):
        file = tmp_path / "reports" / "rollouts" / f"reverse-text--here@{step}--compare-{side}.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        assert len(rows) == 6
        assert not any(row.get("error") for row in rows)
