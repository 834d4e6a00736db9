"""Versions: what is published under one never changes, and its step says what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.facts.observed import Place
from envops.repository.version_steps import MINOR, VersionStep, next_versions, version_step
from envops.rules.engine import Found, Subject, rule
from envops.rules.evidence import Evidence
from envops.rules.schema.metadata import in_pyproject

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTED = 20


def _step(subject: Subject) -> VersionStep | None:
    """The step from the base's version to this one, where both are versions."""
    history = subject.history
    return (
        None if history is None or history.version is None else version_step(history.version, subject.package.version)
    )


def _last_step(subject: Subject) -> VersionStep | None:
    """The step from the highest version below this one: the base's, one used before, or the Hub's."""
    history, step = subject.history, _step(subject)
    if history is None or history.version is None or step is None or step.direction <= 0:
        return None
    starts = {history.version, history.published or history.version, *(version for version, _ in history.used)}
    steps = [step for start in starts if (step := version_step(start, subject.package.version))]
    rising = [step for step in steps if step.direction > 0]
    return max(rising, key=lambda step: step.before, default=None)


def _place(subject: Subject) -> Place:
    return in_pyproject(subject.package, "project.version")


def _bump(subject: Subject) -> str:
    """The command that makes the least step that is enough."""
    minor = " --minor" if subject.history and subject.history.reward_changed else ""
    return f"nox -s bump -- {subject.package.name}{minor}"


@rule("REL001", gate="release")
def content_changed_under_the_same_version(subject: Subject) -> Iterator[Found]:
    """What would be published changed, and the version did not.

    What: Where a file that the Hub or the wheel carries differs from the base, `project.version` differs too.
    Why: The Hub never replaces what is published under a version, so a merge would publish nothing.
    Fix: Raise the version: `nox -s bump -- NAME`, with `--minor` where rewards can change.
    """
    history = subject.history
    if history is None or not history.changed or history.same_content:
        return
    if history.version == subject.package.version:
        names = ", ".join(history.changed[:3]) + (" …" if len(history.changed) > 3 else "")
        yield Found(
            f"{names} changed since {history.base[:12]}, and the version is still {history.version}",
            Evidence(
                count=len(history.changed),
                details={"changed": list(history.changed[:_LISTED]), "version": history.version},
            ),
            _place(subject),
            fix=_bump(subject),
        )


@rule("REL002", gate="release")
def version_falls(subject: Subject) -> Iterator[Found]:
    """The version falls.

    What: `project.version` is not lower than at the base.
    Why: A lower version never becomes the newest, and on the Hub it is most likely taken by other content.
    Fix: Choose a version above the base's: `nox -s bump -- NAME`. To take a change back, publish the old content
        under a new version.
    """
    step, history = _step(subject), subject.history
    if history and not history.same_content and step is not None and step.direction < 0:
        yield Found(
            f"the version falls from {history.version} to {subject.package.version}",
            Evidence(details={"before": history.version, "now": subject.package.version}),
            _place(subject),
            fix=f"set the version to {history.version}, then: {_bump(subject)}",
        )


@rule("REL003", gate="release")
def version_skips(subject: Subject) -> Iterator[Found]:
    """The version rises by more than one step.

    What: One number of `project.version` rises by one, and those after it become zero.
    Why: A gap looks like a version that was published and lost, and an accidental major step cannot be taken back.
    Fix: Take one of the next versions; `nox -s bump -- NAME` writes it.
    """
    last = _last_step(subject)
    if last is None or last.place is not None:
        return
    allowed = list(next_versions(str(last.before)))
    yield Found(
        f"{last.before} → {subject.package.version} is not one step; next are {', '.join(allowed)}",
        Evidence(details={"before": str(last.before), "now": subject.package.version, "allowed": allowed}),
        _place(subject),
    )


@rule("REL004", gate="release")
def content_was_there_before(subject: Subject) -> Iterator[Found]:
    """This is an earlier content again, under its earlier version.

    What: What would be published is not, file by file, what an earlier commit held.
    Why: The Hub refuses content that it has, and the version in between stays the newest: a revert by git alone
        publishes nothing.
    Fix: Keep the reverted files and give them a version above the newest: `nox -s bump -- NAME`.
    """
    history = subject.history
    if history is not None and history.same_content:
        yield Found(
            f"this is the content of {history.same_content[:12]} again (version {subject.package.version}); "
            "the Hub would refuse it as already there",
            Evidence(
                details={
                    "commit": history.same_content,
                    "version": subject.package.version,
                    "base_version": history.version,
                }
            ),
            _place(subject),
            fix=f"nox -s bump -- {subject.package.name} --above {history.version}",
        )


@rule("REL005", gate="release")
def version_returns(subject: Subject) -> Iterator[Found]:
    """The version was used before, for other content.

    What: A version that is new since the base never stood in the history of pyproject.toml.
    Why: The Hub has other content under it, if it was ever merged.
    Fix: Go past it: `nox -s bump -- NAME --above VERSION`.
    """
    history, step = subject.history, _step(subject)
    if history is None or history.same_content or step is None or step.direction <= 0:
        return
    commit = dict(history.used).get(subject.package.version)
    if commit is not None:
        yield Found(
            f"version {subject.package.version} was used before, by {commit[:12]}",
            Evidence(details={"commit": commit, "version": subject.package.version}),
            _place(subject),
            fix=f"nox -s bump -- {subject.package.name} --above {subject.package.version}",
        )


@rule("REL006", gate="release")
def reward_changed_by_a_patch(subject: Subject) -> Iterator[Found]:
    """Rewards can have changed, and the version rises by a patch only.

    What: Where code, data, pins or arguments differ from the base, the minor or the major number rises.
    Why: Whoever trains on `~=0.1.2` takes patches without looking; a changed reward makes runs incomparable.
    Fix: `nox -s bump -- NAME --minor`. Where the change provably pays the same (a comment, a rename), ignore this
        rule with that reason.
    """
    history, step = subject.history, _last_step(subject)
    if history is None or step is None or not history.reward_changed or not history.changed:
        return
    if step.place is not None and step.place > MINOR:
        yield Found(
            f"what decides the rewards changed, and {step.before} → {subject.package.version} is a patch",
            Evidence(
                details={
                    "changed": list(history.changed[:_LISTED]),
                    "before": str(step.before),
                    "now": subject.package.version,
                }
            ),
            _place(subject),
            fix=f"set the version back to {history.version}, then: nox -s bump -- {subject.package.name} --minor",
        )


@rule("REL007", gate="release", severity="warning")
def environment_was_renamed(subject: Subject) -> Iterator[Found]:
    """The environment has a new name, which the Hub takes for a new environment.

    What: A new environment does not hold the files of one that is gone.
    Why: The old name stays on the Hub as it is, and runs and users that name it go on using that.
    Fix: Keep the old name; or tell its users, and once nobody needs it delete it by hand:
        `prime env delete OWNER/OLD`.
    """
    history = subject.history
    if history is not None and history.renamed_from:
        yield Found(
            f"{history.renamed_from} was renamed to {subject.package.name}: the Hub gets a new environment, and "
            f"{subject.entry.owner}/{history.renamed_from} stays as it is",
            Evidence(details={"before": history.renamed_from, "now": subject.package.name}),
            in_pyproject(subject.package, "project.name"),
        )
