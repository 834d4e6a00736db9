"""What everybody earned, and what recordings are worth now, as data for validate.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envops.rules.evidence import reply_text

if TYPE_CHECKING:
    from envops.facts.recordings import RecordingFacts
    from envops.rules.profiles import Profile


def profile_data(profile: Profile) -> dict[str, Any]:
    """A profile; each group is a short list, because there are many."""
    return {
        "policy": profile.policy,
        "source": profile.source,
        "scripted": profile.scripted,
        "tasks": profile.tasks,
        "tokens": profile.tokens,
        "seconds": profile.seconds,
        "spreads": [vars(spread) for spread in profile.spreads],
        "groups": [[group.task, group.count, group.mean, group.deviation] for group in profile.groups],
    }


def recording_data(recording: RecordingFacts) -> dict[str, Any]:
    """A recording with its baseline's numbers and what changed, without its rows."""
    baseline = recording.baseline
    said = ("model", "date", "endpoint", "rollouts", "scored", "mean", "interval", "confidence", "digest", "functions")
    return {
        "file": recording.file,
        "speaker": baseline.get("model") or baseline.get("policy"),
        **{name: baseline.get(name) for name in (*said, "package_version", "sampling", "spent", "tokens")},
        "replayed": recording.replayed,
        "compared": recording.compared,
        "change_count": recording.change_count,
        "changes": [
            {
                "line": change.line,
                "task": change.task,
                "reply": reply_text(change.completion),
                "reward": change.reward,
                "again": change.again,
                "functions": change.functions,
                "functions_again": change.functions_again,
            }
            for change in recording.changes
        ],
        "not_compared": recording.not_compared,
        "problems": recording.problems,
        "failure": recording.failure,
    }
