"""Run by a Python that has a checkout of prime-rl: what its filesystem broadcast leaves of a run of five steps.

    python in_prime_rl_weights.py record       one JSON object: name → the files below the run's folder, in base64
    python in_prime_rl_weights.py write FOLDER KIND

The model is transformers', tiny and on the CPU. Names, formats and the steps that stay are the other side's:
`FileSystemWeightBroadcast`, and for the adapter `apply_lora_to_model`. Kernels of GPUs are stand-ins, and the packages
that import all of prime-rl's models are replaced by their parts.
"""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

KINDS = {"weights of one process": 1, "weights of two processes": 2, "adapter": 1}
"""Name → processes of the trainer."""
GPU_ONLY = {
    "torchtitan",
    "ring_flash_attn",
    "flash_attn",
    "dion",
    "torchdata",
    "fla",
    "quack",
    "triton",
    "tilelang",
    "vllm",
}
STEPS, INTERVAL = 5, 2
LAST = "step_5"
"""The step whose files are recorded; of all others only the names are. All weights are 0, with any release of torch."""


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that only GPUs need."""

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        known = name.split(".")[0] in GPU_ONLY
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return MagicMock(name=spec.name, __path__=[], __spec__=spec, __version__="99")

    def exec_module(self, module: Any) -> None:
        """Nothing is there to run."""


def write(folder: Path, kind: str) -> None:
    """Broadcast every step of a run into a folder, in this process as one of several."""
    import torch
    import torch.distributed as dist
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.compile = lambda made=None, **_: made if made is not None else (lambda each: each)
    sys.meta_path.append(StandIns())
    _parts_of("prime_rl.trainer", "models")
    from prime_rl.trainer.models.base import PreTrainedModelPrimeRL

    sys.modules["prime_rl.trainer.models"].PreTrainedModelPrimeRL = PreTrainedModelPrimeRL
    _parts_of("prime_rl.transports", "weights")
    from prime_rl.configs.trainer import FileSystemWeightBroadcastConfig, LoRAConfig
    from prime_rl.trainer import lora
    from prime_rl.transports.weights.filesystem import FileSystemWeightBroadcast

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    shape = {"vocab_size": 8, "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 16}
    model = LlamaForCausalLM(LlamaConfig(**shape, **heads)).to(torch.bfloat16)
    model.config._name_or_path = "tiny/base"
    adapter = LoRAConfig(rank=4, alpha=8) if kind == "adapter" else None
    if adapter is not None:
        on_gpu = lora.setup_lora_state
        lora.setup_lora_state = lambda config, _: on_gpu(config, torch.device("cpu"))
        lora.apply_lora_to_model(model, adapter)
    for weight in model.parameters():
        weight.data.zero_()
    broadcast = FileSystemWeightBroadcast(folder, FileSystemWeightBroadcastConfig(), adapter)
    for step in range(STEPS + 1):  # the first before any training, as train.py does
        broadcast.broadcast_weights(model, step)
        dist.barrier()
        if step and dist.get_rank() == 0:
            broadcast.maybe_clean(step, INTERVAL)
    dist.barrier()
    dist.destroy_process_group()


def _parts_of(package: str, name: str) -> None:
    """Make the modules of a package importable without the package's own imports."""
    parent = importlib.import_module(package)
    part: Any = types.ModuleType(f"{package}.{name}")
    part.__path__ = [f"{path}/{name}" for path in parent.__path__]
    sys.modules[part.__name__] = part


def recorded(kind: str) -> dict[str, str | None]:
    """The files of a run, below its folder; `None` where only the name is recorded."""
    with tempfile.TemporaryDirectory() as made:
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "write", made, kind],
                env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), **_world(KINDS[kind])},
            )
            for rank in range(KINDS[kind])
        ]
        codes = [process.wait() for process in processes]
        if any(codes):
            sys.exit(f"{kind}: nothing was written")
        files = sorted(path for path in Path(made).rglob("*") if path.is_file())
        return {
            path.relative_to(made).as_posix(): base64.b64encode(path.read_bytes()).decode()
            if path.parent.name == LAST
            else None
            for path in files
        }


def _world(count: int) -> dict[str, str]:
    """The variables of torchrun."""
    port = str(20_000 + os.getpid() % 20_000)
    return {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["record"]:
            print(json.dumps({kind: recorded(kind) for kind in KINDS}))
        case ["write", folder, kind]:
            write(Path(folder), kind)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
