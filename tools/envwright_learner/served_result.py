"""A model or an adapter on loopback by transformers, for machines without vLLM; `envwright train serve` starts it.

python -m envwright_learner.served_result MODEL NAME PORT [ADAPTER [TEMPLATE]]

TEMPLATE are arguments of the chat template, as JSON.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from envwright.training.run_folder import UnfitSettings

from envwright_learner.model import LoadedModel, SampledReply, SamplingSettings, loaded_model, sampled
from envwright_learner.rendering import TemplateRenderer, UnfitTemplate
from envwright_learner.serving import PolicyServer, Sampler, SamplingRequest
from envwright_learner.settings import LearnerSettings, RolloutSettings
from envwright_learner.training import silence_libraries


def loaded_result(model: str, adapter: Path | None) -> LoadedModel:
    """A model, with an adapter on it, in its saved precision. Raises `UnfitSettings`."""
    settings = LearnerSettings(model, RolloutSettings("none"), {"model_init_kwargs": {"dtype": "auto"}})
    base = loaded_model(settings, Path.cwd())
    whole: Any = base.model
    if adapter is not None:
        from peft import PeftModel

        whole = PeftModel.from_pretrained(whole, adapter)
    return LoadedModel(whole.to("cuda" if torch.cuda.is_available() else "cpu"), base.tokenizer, base.ends)


def sampler(loaded: LoadedModel) -> Sampler:
    """Sample each reply with the temperature and the limit of its request; those that are alike in one batch."""

    def settings_of(request: SamplingRequest) -> SamplingSettings:
        most, pad = request.most or sys.maxsize, loaded.tokenizer.pad_token_id
        return SamplingSettings(most, loaded.ends, pad, request.temperature)

    def batches(requests: Sequence[SamplingRequest]) -> Iterator[tuple[int, SampledReply]]:
        places = sorted(range(len(requests)), key=lambda place: _limits(requests[place]))
        for _, batch in groupby(places, lambda place: _limits(requests[place])):
            alike = list(batch)
            heard = [requests[place].heard for place in alike]
            yield from zip(alike, sampled(loaded.model, heard, settings_of(requests[alike[0]])), strict=True)

    return lambda requests: [reply for _, reply in sorted(batches(requests))]


def _limits(request: SamplingRequest) -> tuple[float, int]:
    return request.temperature, request.most or sys.maxsize


def main(model: str, name: str, port: str, adapter: str = "", template: str = "{}") -> None:
    """Serve until SIGTERM."""
    silence_libraries()
    try:
        loaded = loaded_result(model, Path(adapter) if adapter else None)
        renderer = TemplateRenderer(loaded.tokenizer, loaded.ends, json.loads(template))
    except (UnfitSettings, UnfitTemplate) as error:
        sys.exit(str(error))
    longest = getattr(loaded.model.config, "max_position_embeddings", None)
    with PolicyServer(renderer, sampler(loaded), longest, name=name, port=int(port)):
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
