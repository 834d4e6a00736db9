"""Whether rewards follow from the order of sets, which changes from process to process.

Python hashes strings with a seed of the process. It reaches a reward only through `hash()` and
the order of sets, so a second process with another seed, which costs an import of verifiers, is
started only where the package's own code has either in a place where it could matter.
"""

from __future__ import annotations

import ast
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envops.declare.package import Package
from envops.observe.facts import Difference, Repetition
from envops.observe.limits import LOAD_SECONDS, SECONDS_PER_REPLY
from envops.observe.process import Confinement, StageFailed, WorkerProcess
from envops.observe.venv import VirtualEnvironment
from envops.observe.workspace import Workspace

if TYPE_CHECKING:
    from envops.observe.fork_server import ForkServer

OTHER_SEED = 4711
KEPT = 20
SECONDS_PER_ROLLOUT = 60.0
_MAKERS = {"set", "frozenset", "hash"}
_ORDERLESS = {"len", "sorted", "any", "all", "bool", "isinstance", "set", "frozenset", "issubset", "issuperset"}


def follows_hash_order(package: Package) -> bool:
    """Whether a source of the package makes a set, or a hash, whose order or value could matter."""
    sources = [name for name in package.files if name.endswith(".py") and not name.startswith("tests/")]
    return any(_follows(package.folder / name) for name in sources)


def _follows(path: Path) -> bool:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    return any(_is_made(node) and not _is_harmless(node, parents) for node in ast.walk(tree))


def _is_made(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _name(node.func) in _MAKERS
    return isinstance(node, (ast.Set, ast.SetComp))


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_harmless(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether only what the set contains can matter, not in which order."""
    parent = parents.get(node)
    if isinstance(node, ast.Call) and _name(node.func) == "hash":
        return False
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(parent, (ast.BinOp, ast.BoolOp, ast.UnaryOp)):
        return _is_harmless(parent, parents)
    if isinstance(parent, ast.Call) and node in parent.args:
        return _name(parent.func) in _ORDERLESS
    return False


def with_other_seed(
    venv: VirtualEnvironment,
    overlay: Path,
    workspace: Workspace,
    confinement: Confinement,
    settings: dict[str, Any],
    sample: Sequence[dict[str, Any]],
    stop: threading.Event,
    server: ForkServer | None = None,
    *,
    conversational: bool = False,
) -> Repetition:
    """The sample scored by a process of its own whose strings hash otherwise.

    Where rewards compare the replies to a task they are scored together, and where the environment
    answers back the rollouts are made again.
    """
    said = [
        (unit["task"], policy, completion, reward)
        for unit in sample
        for policy, completion, reward in zip(unit["policies"], unit["completions"], unit["rewards"], strict=True)
    ]
    try:
        with (
            workspace.scratch() as scratch,
            WorkerProcess(venv, overlay, scratch, replace(confinement, hash_seed=OTHER_SEED), stop, server) as worker,
        ):
            list(worker.request("load", LOAD_SECONDS, settings=settings))
            list(
                worker.request(
                    "listing", LOAD_SECONDS, limit=max(one[0] for one in said) + 1, asked=0, seconds=SECONDS_PER_REPLY
                )
            )
            again = (_played if conversational else _scored)(worker, sample)
    except StageFailed as error:
        return Repetition("hash seed", 0, failure=error.failure)
    differences = [
        Difference(task, policy, tuple(completion), reward, again[number])
        for number, (task, policy, completion, reward) in enumerate(said)
        if number in again and not _same(reward, again[number])
    ]
    return Repetition("hash seed", len(again), tuple(differences[:KEPT]), len(differences))


def _scored(worker: WorkerProcess, sample: Sequence[dict[str, Any]]) -> dict[int, float | None]:
    """Number of a conversation → what it earns; those of one unit are scored together."""
    conversations = [(group, unit["task"], said) for group, unit in enumerate(sample) for said in unit["completions"]]
    replies = [
        {"id": number, "group": group, "task": task, "completion": said}
        for number, (group, task, said) in enumerate(conversations)
    ]
    answers = worker.request("rescore", LOAD_SECONDS, replies=replies, seconds=SECONDS_PER_REPLY, max_concurrent=8)
    return {value["id"]: value["reward"] for kind, value in answers if kind == "rescored"}


def _played(worker: WorkerProcess, sample: Sequence[dict[str, Any]]) -> dict[int, float | None]:
    """Number of a rollout → what it earns; one in which something else is said does not count."""
    wanted = {(unit["task"], unit["policies"][0]): number for number, unit in enumerate(sample)}
    again: dict[int, float | None] = {}
    for policy in dict.fromkeys(policy for _, policy in wanted):
        indices = [task for task, one in wanted if one == policy]
        limits = {"rollouts": 1, "max_concurrent": 1, "seconds": SECONDS_PER_ROLLOUT}
        for kind, value in worker.request(
            "evaluate", LOAD_SECONDS, policies=[policy], indices=indices, predict=False, **limits
        ):
            number = wanted[value["task"], policy] if kind == "rollout" else None
            if number is not None and value["completion"] == sample[number]["completions"][0]:
                again[number] = value["reward"]
    return again


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
