"""Make the process that has loaded the environment its template, if it can be forked safely."""

from __future__ import annotations

import gc

from envwright_worker.channel import JobRequest
from envwright_worker.session import Session
from envwright_worker.template import reason_not_to_fork


def answer(session: Session, _request: JobRequest) -> None:
    """Send why forks are not safe, or nothing; then the process becomes a template."""
    gc.collect()  # garbage may keep a channel open
    reason = reason_not_to_fork(session.descriptors_before_loading)
    session.channel.item("refusal", reason)
    session.is_template = not reason
