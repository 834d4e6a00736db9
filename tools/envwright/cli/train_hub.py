"""`envwright train hub OWNER/NAME`, or `train OWNER/NAME`: a run on environments of the Hub, without registry."""

from __future__ import annotations

import argparse
import re
import shlex
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envwright import exit_codes
from envwright.authoring.dataset.huggingface import is_dataset
from envwright.cli import arguments
from envwright.cli.questions import answer, can_ask, confirmed
from envwright.cli.train import run_result
from envwright.declarations.problem import nearest
from envwright.declarations.registry import ExternalEntry, Registry
from envwright.declarations.run import EXAMPLE_MODEL, run_spec
from envwright.exit_codes import CommandError
from envwright.files.atomic_write import write_whole
from envwright.hub.access import HubAccess, Prime, hub_access, the_platform
from envwright.hub.runs import TrainingOffer, read_training_offer
from envwright.hub.state import read_hub
from envwright.packages.git import head_of
from envwright.reports.declared_runs import render_runs
from envwright.system.workspace import Workspace
from envwright.training.declared_runs import DeclaredRun, declared_runs, is_compiled
from envwright.training.due import DecidedRun, RunDecision, RunSize, Situation, checked
from envwright.training.submit import Platform, RunIdentity, identity_of, submit
from envwright.training.trainers import SUBMITTED

EXAMPLES = """examples:
  envwright train hub primeintellect/gsm8k --model Qwen/Qwen3-4B-Instruct-2507
  envwright train hub primeintellect/gsm8k@0.1.2 acme/wordle --model Qwen/Qwen3-4B-Instruct-2507 --dry-run
  envwright train hub primeintellect/gsm8k --model Qwen/Qwen3-4B-Instruct-2507 --batch 256 --group-size 16 --gpus 2+2
"""
ADDRESS = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*/[A-Za-z0-9]+([._-][A-Za-z0-9]+)*(@[0-9][A-Za-z0-9.+!_-]*)?")
BATCH, GROUP, STEPS = 128, 8, 100
MOST_SHOWN = 12
"""The most models that a prompt or a message lists."""


@dataclass(frozen=True)
class HubRun:
    """The request, compiled."""

    run: DeclaredRun
    identity: RunIdentity
    file: Path
    text: str


class Unusable(CommandError):
    """The command line cannot be run; the message ends with the next command."""

    def __init__(self, message: str, then: str = "") -> None:
        super().__init__(f"{message}\n    next: {then}" if then else message)


@dataclass(frozen=True)
class TrainingPlatform:
    """The platform, as far as it can be used; a dry run does not need it."""

    prime: Prime | None
    access: HubAccess
    offer: TrainingOffer
    stop: threading.Event


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "environments", nargs="+", metavar="OWNER/NAME", help="train on it; several are a mix; @VERSION pins one"
    )
    command.add_argument("-m", "--model", metavar="M", help="the model to start from; prompted for on a terminal")
    size = command.add_argument_group("the run")
    size.add_argument(
        "--max-steps", type=arguments.positive, default=STEPS, metavar="N", help=f"training steps (default: {STEPS})"
    )
    size.add_argument(
        "--batch", type=arguments.positive, default=BATCH, metavar="N", help=f"rollouts per step (default: {BATCH})"
    )
    arguments.group_size(size, GROUP)
    size.add_argument("--lr", type=float, metavar="RATE", help="learning rate (default: 1e-6)")
    size.add_argument("--tokens", type=arguments.positive, metavar="N", help="of one reply at most (default: 1024)")
    size.add_argument(
        "--gpus", type=gpus, metavar="TRAIN+SAMPLE", help="GPUs that train and that sample (default: 1+1)"
    )
    size.add_argument("--gpu-type", metavar="TYPE", help="of those that `prime train gpus` lists")
    size.add_argument(
        "--volume", metavar="NAME", help="volume that keeps the outputs; made if it does not exist, paid by size"
    )
    command.add_argument("--dry-run", action="store_true", help="show the configuration, submit nothing; needs no key")
    arguments.confirmation(command, "submit")
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="folder of the configuration (default: configs/rl/)"
    )
    arguments.root(command)


def gpus(text: str) -> tuple[int, int]:
    """GPUs that train and GPUs that sample, as `2+2`."""
    found = re.fullmatch(r"([1-9]\d*)\+([1-9]\d*)", text)
    if found is None:
        raise argparse.ArgumentTypeError("must be two numbers, such as 2+2: GPUs that train, and GPUs that sample")
    return int(found[1]), int(found[2])


def run(options: argparse.Namespace) -> int:
    """Compile, show, confirm, submit; the exit code."""
    _check(options)
    platform = _platform(options)
    _complete(options, platform)
    hub_run, decision = _checked_there(_compiled(options, platform), platform, options)
    write_whole(hub_run.file, hub_run.text)
    print(f"{hub_run.file}:\n\n{hub_run.text}")
    print(platform.access.scrubber.text(render_runs([run_result(hub_run.run)], quiet=True)), end="")
    for note in [*([decision.reason] if decision.reason else []), *_notes(options, platform)]:
        print(platform.access.scrubber.text(note))
    if hub_run.run.fails or decision.action == "refused":
        return exit_codes.FAIL
    question = f"Submit {hub_run.identity.name}? Hosted GPUs are billed by the hour."
    if options.dry_run or platform.prime is None or not confirmed(question, options):
        return exit_codes.PASS
    notes = Workspace(options.root.absolute()).base
    target = Platform(platform.prime, platform.access, notes, platform.stop)
    outcome = submit(hub_run.run, hub_run.identity, target)
    print(platform.access.scrubber.text(str(outcome)))
    if outcome.outcome in ("submitted", "already-submitted"):
        return exit_codes.PASS
    return exit_codes.ERROR if outcome.outcome == "unknown" else exit_codes.FAIL


def _check(options: argparse.Namespace) -> None:
    for address in options.environments:
        if not ADDRESS.fullmatch(address):
            then = f"envwright train {address}" if "/" not in address else ""
            message = f"{address}: an environment of the Hub is owner/name, or owner/name@1.2.3"
            raise Unusable(f"{message}; a run of registry.yaml is trained by its name", then)
    if options.model and not can_ask() and not options.yes and not options.dry_run:
        message = (
            "not a terminal, so the submission cannot be confirmed: add --yes to submit, or --dry-run to only show it"
        )
        raise Unusable(message, f"{command_line(options)} --dry-run")


def _platform(options: argparse.Namespace) -> TrainingPlatform:
    """The platform; without a key only a dry run continues. Raises `HubUnavailable`."""
    stop = threading.Event()
    if options.dry_run and not hub_access().key:
        return TrainingPlatform(
            None, hub_access(), TrainingOffer(unread="without a key the platform was not read"), stop
        )
    prime, access = the_platform("or only show the configuration: --dry-run")
    return TrainingPlatform(prime, access, read_training_offer(prime, access, stop), stop)


def _complete(options: argparse.Namespace, platform: TrainingPlatform) -> None:
    """Prompt for the model on a terminal, and check the GPU type. Raises `Unusable` for what is missing or unknown."""
    offer = platform.offer
    kind = options.gpu_type
    if kind and offer.gpus and kind not in offer.gpus:
        near = nearest(kind, offer.gpus) or next(iter(offer.gpus))
        message = f"--gpu-type {kind}: the platform offers {', '.join(offer.gpus)}"
        raise Unusable(message, command_line(options, gpu_type=near))
    if options.model:
        return
    known = offer.models or (EXAMPLE_MODEL,)
    listed = "".join(f"\n    {name}" for name in known[:MOST_SHOWN])
    if len(known) > MOST_SHOWN:
        listed += f"\n    and {len(known) - MOST_SHOWN} more: prime train models"
    what = "models on the platform" if offer.models else "the platform lists no models; an example is"
    if can_ask():
        print(f"{what}:{listed}")
        options.model = answer(f"Model to start from [{known[0]}]") or known[0]
        return
    then = command_line(options, model=known[0]) + ("" if options.yes else " --dry-run" * (not options.dry_run))
    raise Unusable(f"--model is missing; {what}:{listed}", then)


def command_line(options: argparse.Namespace, **changed: str) -> str:
    """The command line with every value that is not a default."""
    given = {**vars(options), **changed}
    words = ["envwright", "train", "hub", *given["environments"]]
    for name, default in (("model", None), ("max_steps", STEPS), ("batch", BATCH), ("rollouts", GROUP), ("lr", None)):
        if given[name] != default:
            flag = "group-size" if name == "rollouts" else name.replace("_", "-")
            words += [f"--{flag}", str(given[name])]
    if given["tokens"]:
        words += ["--tokens", str(given["tokens"])]
    if given["gpus"]:
        words += ["--gpus", "+".join(map(str, given["gpus"]))]
    for name in ("gpu_type", "volume"):
        words += [f"--{name.replace('_', '-')}", given[name]] if given[name] else []
    for flag in ("dry_run", "yes"):
        words += [f"--{flag.replace('_', '-')}"] if given[flag] else []
    return shlex.join(words)


def _declared(options: argparse.Namespace, external: dict[str, ExternalEntry]) -> dict[str, Any]:
    declared: dict[str, Any] = {
        "backend": SUBMITTED.limits.name,
        "model": options.model,
        "environments": [{"id": entry.name} for entry in external.values()],
        "max_steps": options.max_steps,
        "batch_size": options.batch,
        "group_size": options.rollouts,
    }
    if options.lr is not None:
        declared["learning_rate"] = options.lr
    if options.tokens:
        declared["sampling"] = {"max_tokens": options.tokens}
    train, sample = options.gpus or (None, None)
    chosen = {"train": train, "inference": sample, "type": options.gpu_type}
    if given := {key: value for key, value in chosen.items() if value}:
        declared["gpus"] = given
    if options.volume:
        declared["volume"] = {"name": options.volume}
    return declared


def _compiled(options: argparse.Namespace, platform: TrainingPlatform) -> HubRun:
    external = _external(options.environments, platform)
    name, declared = _name(options), _declared(options, external)
    try:
        spec = run_spec(name, declared, {}, "the command line", command_line(options))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise Unusable(wrong) from None
    [compiled] = declared_runs(Registry("", {}, external, {name: declared}, {name: spec}), {}, [spec])
    root = options.root.absolute()
    commit = head_of(root)
    identity = identity_of(compiled.request, declared, {}, commit)
    if compiled.compiled is None:
        raise Unusable("; ".join(finding.message for finding in compiled.findings))
    path, text = next(iter(compiled.compiled.files.items()))
    file = options.output or root / path
    if file.is_file() and is_compiled(file):
        message = f"{file} is the file of a declared run, and is not overwritten"
        raise Unusable(message, f"{command_line(options)} --output {name}.toml")
    file.parent.mkdir(parents=True, exist_ok=True)
    return HubRun(compiled, identity, file, text)


def _checked_there(
    hub_run: HubRun, platform: TrainingPlatform, options: argparse.Namespace
) -> tuple[HubRun, RunDecision]:
    """The run as the platform takes it: by the code of its environments on the Hub, and by the platform's own check.

    Without a key, and for a run that fails already, nothing is asked. Raises `Interrupted`.
    """
    if platform.prime is None or hub_run.run.fails:
        return hub_run, RunDecision("not-asked", "")
    size, root = RunSize(hub_run.run.spec), options.root.absolute()
    nothing = Registry("", {}, {}, {}, {})
    situation = Situation(root, nothing, platform.access, platform.prime, frozenset(), platform.stop)
    due = DecidedRun(hub_run.run, hub_run.identity, RunDecision("submit", str(size)), size)
    found = checked(situation, due, platform.offer.gpus)
    files = found.run.compiled.files.values() if found.run.compiled else ()
    return replace(hub_run, run=found.run, text=next(iter(files), hub_run.text)), found.decision


def _external(addresses: list[str], platform: TrainingPlatform) -> dict[str, ExternalEntry]:
    """The environments by name, at the version that was named or at the latest.

    Raises `Unusable` for one that is not on the Hub.
    """
    plain = [address.partition("@")[0] for address in addresses]
    pinned = [address for address in addresses if "@" in address]
    hub = read_hub(platform.prime, platform.access, plain, platform.stop, pinned=pinned) if platform.prime else None
    found: dict[str, ExternalEntry] = {}
    for address in addresses:
        place, _, version = address.partition("@")
        owner, _, name = place.partition("/")
        if hub is not None:
            reading = hub.pinned[address] if version else hub.readings[place]
            version = version or (reading.environment.version if reading.environment else "")
            if reading.standing == "unreadable":
                raise Unusable(f"{address} could not be read on the Hub: {reading.why}")
            if reading.standing != "found" or not version:
                latest = hub.readings[place].environment
                if latest is not None and latest.version:
                    message = f"{place} has no version {version} on the Hub; its latest is {latest.version}"
                    raise Unusable(message, f"envwright train hub {place}@{latest.version}")
                raise _absent(address, reading.why)
        label = name if name not in found else f"{owner}-{name}"
        found[label] = ExternalEntry(label, owner, name, version)
    return found


def _absent(address: str, why: str) -> Unusable:
    """The error for an environment that is not on the Hub; a dataset of that name leads to `inspect`."""
    place = address.partition("@")[0]
    if is_dataset(place):
        return Unusable(
            f"{place} is a dataset of Hugging Face, not an environment of the Hub", f"envwright inspect {place}"
        )
    message = f"{address} was not found on the Hub: {why or 'nothing is published there'}"
    return Unusable(message, f"prime env list --search {place.partition('/')[2]}")


def _notes(options: argparse.Namespace, platform: TrainingPlatform) -> list[str]:
    """Notes on unread lists, and the cost of the GPUs."""
    offer, notes = platform.offer, []
    if not options.volume:
        notes.append("note: the platform deletes the checkpoints when the run ends; --volume NAME keeps its outputs")
    if offer.unread:
        notes.append(f"note: {offer.unread}: whether environments, model and GPUs exist there is not known")
    if platform.prime is None and (latest := [each for each in options.environments if "@" not in each]):
        notes.append(f"note: not pinned: {', '.join(latest)}; name OWNER/NAME@VERSION, or a key that reads the latest")
    prices = {kind: price for kind, price in offer.gpus.items() if price is not None}
    kind = options.gpu_type or (next(iter(prices)) if len(prices) == 1 else "")
    if kind in prices:
        count = sum(options.gpus or (1, 1))
        notes.append(f"cost: {count} GPUs of {kind} at ${prices[kind]:g} an hour: ${count * prices[kind]:g} per hour")
    elif offer.gpus and not options.gpu_type:
        notes.append(f"GPU types (--gpu-type): {', '.join(offer.gpus)}; without it the platform chooses")
    return notes


def _name(options: argparse.Namespace) -> str:
    environments = "-".join(address.partition("@")[0].rpartition("/")[2] for address in options.environments)
    text = f"{environments}-{options.model.rpartition('/')[2]}".lower()
    return re.sub(r"[^a-z0-9.]+", "-", text).strip("-.")[:60].strip("-.")
