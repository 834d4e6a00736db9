"""prime-rl on machines of one's own: `uv run rl @ X.toml`, with SLURM for several nodes."""

from __future__ import annotations

from envops.training.install import install_lines
from envops.training.trainers.prime_rl_config import prime_rl_config
from envops.training.trainers.trainer import Compiled, Request, file_path, heading, with_overrides
from envops.training.written_config import script_text, toml_text


def compile_run(request: Request) -> Compiled:
    """A prime-rl TOML and the script that installs the environments and starts it."""
    spec = request.spec
    config = with_overrides(prime_rl_config(request, hosted=False), spec)
    path, script = file_path(request, "toml"), file_path(request, "sh")
    about = heading(request, f"uv run rl @ {path}", f"Schema: {spec.schema}; see docs/training.md.")
    nodes = config.values.get("slurm") is not None
    to_start = "rl writes a batch script from [slurm] and submits it with sbatch" if nodes else "rl starts everything"
    lines = heading(
        request,
        f"PRIME_RL=/where/prime-rl/is {script}",
        f"On the machine that trains, in a checkout of prime-rl; {to_start}.",
        f"{script} --dry-run writes the resolved configuration of every process and starts nothing.",
    )
    text = toml_text(config, about)
    installs = install_lines(request, into='uv pip install --project "$PRIME_RL"')
    before = [': "${PRIME_RL:?the folder of a prime-rl checkout}"', *installs]
    launch = script_text(f'uv run --project "$PRIME_RL" rl @ "$PWD/{path}"', {}, lines, before)
    return Compiled(
        run=spec.name,
        backend=spec.backend,
        door="command",
        files={path: text, script: launch},
        command=("bash", script),
        native=config,
        notes=tuple(config.left_out),
        secrets=spec.secrets,
        knobs={"rollouts per step": spec.batch_size},
    )
