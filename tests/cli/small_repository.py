"""A repository of a few of the exemplar environments, committed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[int, str]]
"""Runs a command, and returns its exit code with all that it printed."""
LOOKS_FOR_THE_KEY = """
import os
if "canary" in repr(dict(os.environ)) or "canary" in open("/proc/self/environ").read():
    raise RuntimeError("the key is here")
"""
"""Code for an environment, which may not see the key of a model."""


def small_repository(root: Path, *names: str) -> Path:
    """Make it at `root` with these environments, by folder name."""
    (root / "environments").mkdir(parents=True)
    entries = []
    for name in names:
        shutil.copytree(ROOT / "environments" / name, root / "environments" / name)
        entries.append(f"  {name.replace('_', '-')}: {{}}\n")
    (root / "registry.yaml").write_text(f"version: 1\nowner: acme\nenvironments:\n{''.join(entries)}")
    (root / ".gitignore").write_text(".envwright/\n__pycache__/\nreports/\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def git(root: Path, *arguments: str) -> str:
    """Run git with a neutral identity."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(root), *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def edit(path: Path, old: str, new: str) -> None:
    """Replace text that must be there."""
    text = path.read_text("utf-8")
    assert old in text, f"{old!r} is not in {path}"
    path.write_text(text.replace(old, new), "utf-8")


@contextmanager
def held_out(root: Path, name: str) -> Iterator[None]:
    """Declare other tasks for the evaluation of an environment while the block runs."""
    registry = root / "registry.yaml"
    before = registry.read_text()
    edit(registry, f"{name}: {{}}", f"{name}: {{eval: {{args: {{seed: 1}}}}}}")
    try:
        yield
    finally:
        registry.write_text(before)
