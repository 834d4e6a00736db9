"""The result of a run on this machine, served without vLLM: what its replies are."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.torch]
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
