"""Hosted training on Prime Intellect: `prime train X.toml`."""

from __future__ import annotations

from envops.training.trainers.prime_rl_config import prime_rl_config
from envops.training.trainers.trainer import Compiled, Request, file_path, heading, with_overrides
from envops.training.written_config import toml_text

LORA_UNKNOWN = "lora: the CLI takes it; the service is described as full fine-tuning, and nobody here could try it"


def compile_run(request: Request) -> Compiled:
    """A prime-rl TOML with the keys that only the CLI reads."""
    spec = request.spec
    config = with_overrides(prime_rl_config(request, hosted=True), spec)
    path = file_path(request, "toml")
    about = heading(request, f"prime train {path}", f"Schema: {spec.schema}; see docs/training.md.")
    command = ["prime", "train", path, "-y", "-o", "json"]
    forwarded = [name for name in spec.secrets if name in (request.trainer.forwards or ())]
    for name in forwarded:
        command += ["-e", name]
    if spec.resume is not None and spec.resume.run:
        command += ["--resume-from", spec.resume.run]
    text = toml_text(config, about)
    return Compiled(
        run=spec.name,
        backend=spec.backend,
        door="hosted",
        files={path: text},
        command=tuple(command),
        native=config,
        notes=((LORA_UNKNOWN,) if spec.lora else ()) + tuple(config.left_out),
        secrets=("PRIME_API_KEY", *forwarded),
        knobs={"rollouts per step": spec.batch_size},
    )
