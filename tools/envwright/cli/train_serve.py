"""`envwright train serve RUN`: an endpoint of a run's result, until Ctrl-C."""

from __future__ import annotations

import argparse
import shlex

from envwright import exit_codes
from envwright.cli import arguments
from envwright.declarations.endpoints import ENDPOINTS_FILE, Endpoint
from envwright.declarations.registry import Registry, load_registry
from envwright.reports.printing import print_message
from envwright.system.subprocesses import stopped_by_signals
from envwright.training.kept_model import KeptModel, kept_model
from envwright.training.model_server import (
    PORT,
    READY_SECONDS,
    ModelServer,
    endpoint_of,
    server_command,
    vllm_command,
)

EXAMPLES = """examples:
  envwright train serve reverse-text-here                     its last step, on loopback, until Ctrl-C
  envwright train serve maths-lora --step 200 --port 8001
  envwright train serve maths-lora --dry-run                  check the files, print the command and the endpoint
  envwright train serve maths-lora --vllm="--max-model-len 8192 --enforce-eager"
  envwright compare maths --before base --after run:maths-lora@200      serves it itself, if nothing does
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="RUN", help="a run of the registry")
    command.add_argument("--step", type=int, metavar="N", help="this step (default: the last; 0: the base model)")
    arguments.port(command, PORT)
    more = "further options of vllm serve, as one text"
    command.add_argument("--vllm", type=shlex.split, default=(), metavar="OPTIONS", help=more)
    within = f"end it if the model is not ready by then (default: {READY_SECONDS:.0f})"
    command.add_argument("--ready-within", type=arguments.amount, default=READY_SECONDS, metavar="SECONDS", help=within)
    command.add_argument("--dry-run", action="store_true", help="start nothing; print the command and the endpoint")
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    stop = stopped_by_signals()
    root = options.root
    text = options.name if options.step is None else f"{options.name}@{options.step}"
    registry = load_registry(root)
    kept = kept_model(root, registry, text, stop)
    endpoint = endpoint_of(kept, options.port)
    if kept.service is not None:
        print_message(f"{kept.name}: served by {kept.service.url}, paid by its tokens; nothing is started here")
        print(_entry(kept, endpoint, registry))
        return exit_codes.PASS
    serving = vllm_command if options.dry_run else server_command
    command = serving(kept, options.port, more=options.vllm)
    print_message(f"{kept.name}: serving {kept.folder or kept.spec.model}\n{shlex.join(command)}")
    if options.dry_run:
        print(_entry(kept, endpoint, registry))
        return exit_codes.PASS
    with ModelServer(command, endpoint, root, stop, print_message, options.ready_within) as server:
        print(_entry(kept, endpoint, registry), flush=True)
        print_message("Ctrl-C ends it.")
        server.wait()
    return exit_codes.PASS


def _entry(kept: KeptModel, endpoint: Endpoint, registry: Registry) -> str:
    """The endpoint as the file of endpoints has it, below comments for the reader."""
    own = [source.id for source in kept.spec.environments if source.id in registry.environments]
    lines = [
        f"# envwright compare {own[0] if own else 'ENVIRONMENT'} --before base --after run:{kept.name}",
        f"# for other commands, in {ENDPOINTS_FILE}:",
        "[[endpoint]]",
        f'endpoint_id = "{endpoint.name}"',
        f'model = "{endpoint.model}"',
        f'url = "{endpoint.url}"',
        f'key = "{endpoint.key_variable}"',
        *(["input_price = 0.0", "output_price = 0.0"] if endpoint.has_prices else []),
    ]
    return "\n".join(lines)
