"""The requested learning rate, where a checkpoint has the one that it was trained with."""

from __future__ import annotations

from typing import Any


def ask_for(rate: float, optimizer: Any, scheduler: Any) -> None:
    """Let torch's optimizer and scheduler go on with a peak of `rate`, at the place of the schedule where they are."""
    scheduler = getattr(scheduler, "scheduler", scheduler)  # accelerate wraps it
    former = list(getattr(scheduler, "base_lrs", ())) or [group["lr"] for group in optimizer.param_groups]
    for group, base in zip(optimizer.param_groups, former, strict=True):
        group["lr"] = group["lr"] * rate / base if base else rate
        group["initial_lr"] = rate
    scheduler.base_lrs = [rate for _ in former]
    scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]  # what is logged
