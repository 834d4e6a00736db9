"""A stand-in for the program `vllm` that samples the real model by transformers, on a CPU.

Assumed of the real one: `vllm serve FOLDER --served-model-name NAME --host H --port P`, and an OpenAI-compatible API
below /v1 that lists the name.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MOST_TOKENS = 12


def executable(folder: Path) -> Path:
    """The program as an executable file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
    program.chmod(0o755)
    return program


def main() -> None:
    from aiohttp import web
    from envwright.system.loopback import served
    from envwright_learner import serving
    from envwright_learner.model import SamplingSettings, loaded_model, sampled
    from envwright_learner.rendering import TemplateRenderer
    from envwright_learner.settings import LearnerSettings, RolloutSettings

    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True, choices=["127.0.0.1"])
    parser.add_argument("--port", required=True, type=int)
    options = parser.parse_args()

    loaded = loaded_model(LearnerSettings(options.model, RolloutSettings("any"), {}, None), Path("/"))
    renderer = TemplateRenderer(loaded.tokenizer, loaded.ends)
    settings = SamplingSettings(MOST_TOKENS, loaded.ends, loaded.tokenizer.pad_token_id, at_once=16)

    def sample(requests: Sequence[serving.SamplingRequest]) -> list[tuple[Sequence[int], Sequence[float]]]:
        return [
            (reply.tokens, reply.logprobs)
            for reply in sampled(loaded.model, [each.heard for each in requests], settings)
        ]

    async def models(_request: Any) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": options.served_model_name, "object": "model"}]})

    serving._models = models
    server = serving.PolicyServer(renderer, sample, 2000)
    with served("model", server._opened, port=options.port):
        threading.Event().wait()


if __name__ == "__main__":
    main()
