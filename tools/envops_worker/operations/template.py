"""Let the process that has loaded the environment become its template, where forks of it are sound."""

from __future__ import annotations

import gc

from envops_worker.channel import JobRequest
from envops_worker.session import Session
from envops_worker.template import reason_not_to_fork


def answer(session: Session, _request: JobRequest) -> None:
    """Send why forks would not be sound, or nothing; then the process is a template from now on."""
    gc.collect()  # garbage may keep a channel open
    reason = reason_not_to_fork(session.descriptors_before_loading)
    session.channel.item("refusal", reason)
    session.is_template = not reason
