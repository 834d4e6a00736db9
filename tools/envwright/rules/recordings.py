"""Rules of recordings: do recorded replies still earn the same under the current code?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envwright.facts.observed import Place
from envwright.facts.recordings import BEYOND, ModelReplies, RecordingFacts, split_of
from envwright.facts.reward_numbers import number
from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import EarnedReward, Evidence, of_reply, shown_reply
from envwright.statistics.baseline import disagreements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.facts.observed import Facts


def _renewal(subject: Subject, recording: RecordingFacts) -> str:
    baseline = recording.baseline
    model = baseline.get("endpoint") or "MODEL"
    how = f"--policy {baseline['policy']}" if baseline.get("policy") else f"--model {model}"
    sizes = {"-n": baseline.get("asked_tasks"), "-r": baseline.get("asked_rollouts")}
    size = "".join(f" {flag} {count}" for flag, count in sizes.items() if count)
    if split_of(baseline) == "eval":
        size += " --split eval"
    return f"envwright record {subject.entry.name} {how}{size}"


def _changed_recordings(subject: Subject, *, bumped: bool) -> Iterator[RecordingFacts]:
    """The recordings whose replies earn another reward, under another version than the recorded one or the same."""
    for recording in subject.facts.recordings:
        if recording.changes and (recording.baseline.get("package_version") != subject.package.version) == bumped:
            yield recording


def _changed(facts: Facts, compared: RecordingFacts | ModelReplies, file: str) -> tuple[str, Evidence, Place]:
    first = compared.changes[0]
    message = (
        f"the reply on line {first.line} of {file} earned {number(first.reward)} on task {first.task}, "
        f"now it earns {number(first.again)} ({compared.change_count} of {compared.compared} replies changed)"
    )
    now = EarnedReward(first.again, dict(first.functions_again))
    evidence = replace(
        of_reply(facts, shown_reply(first.task, first.completion), now),
        details={"recorded": first.reward, "functions_recorded": dict(first.functions)},
        count=compared.change_count,
        of=compared.compared,
    )
    return message, evidence, Place(file, first.line)


@rule("REC001", gate="distribution", protects="releases")
def recorded_rewards_changed(subject: Subject) -> Iterator[Found]:
    """Recorded replies earn a different reward under the same version.

    What: Every reply of a recording, scored by the current code, earns the recorded reward, unless project.version was
        raised since. A warning for results in `outputs/`, which may be older than the code.
    Why: One version number has two rewards. The baseline would be compared with a reward that it did not measure.
    Fix: Undo the change of the reward. If it is intended, raise project.version and renew the recording.
    """
    for recording in _changed_recordings(subject, bumped=False):
        message, evidence, place = _changed(subject.facts, recording, recording.file)
        fix = f"Undo the change, or raise project.version and run: {_renewal(subject, recording)}"
        yield Found(f"{message}; the version is still {subject.package.version}", evidence, place, fix)
    results = subject.facts.model_replies
    if results is not None and results.changes:
        message, evidence, _ = _changed(subject.facts, results, results.changed_file)
        fix = "If the change of the reward is intended, remove the old results, or evaluate again."
        yield Found(message, evidence, None, fix, severity="warning")


@rule("REC002", gate="distribution")
def baseline_disagrees(subject: Subject) -> Iterator[Found]:
    """A baseline disagrees with its rollouts.

    What: Counts, the mean reward and the mean of every function in a baseline match its rollouts, and so does the
        digest of the rollouts.
    Why: The baseline may have been edited by hand. It cannot be computed from its rollouts.
    Fix: Renew the recording. Do not edit either of its two files.
    """
    for recording in subject.facts.recordings:
        if recording.problems or not recording.baseline:
            continue
        wrong = disagreements(recording.baseline, recording.rows)
        if recording.baseline.get("environment") != subject.entry.name:
            wrong.insert(0, f"its environment is {recording.baseline.get('environment')!r}")
        if recording.baseline.get("rows") != recording.rows_digest:
            wrong.append(f"it has the digest of other rollouts: {recording.baseline.get('rows')}")
        if wrong:
            place = Place(recording.file.removesuffix(".jsonl.gz") + ".json")
            evidence = Evidence(count=len(wrong), details={"disagreements": wrong})
            fix = f"Run: {_renewal(subject, recording)}"
            yield Found(f"the baseline disagrees with its rollouts: {wrong[0]}", evidence, place, fix)


@rule("REC003", gate="distribution", severity="warning")
def recording_is_stale(subject: Subject) -> Iterator[Found]:
    """A recording is from older code that gives the same rewards.

    What: The digest of code, data, pins and arguments in a baseline is that of the current package.
    Why: All recorded replies still earn the same, but a model might reply differently to the changed parts, such as the
    prompts.
    Fix: Renew the recording when you next have a key.
    """
    for recording in subject.facts.recordings:
        recorded = recording.baseline.get("reward_digest")
        if recorded and recorded != recording.reward_digest and not recording.changes and not recording.problems:
            command = _renewal(subject, recording)
            message = f"stale: the code changed since {recording.baseline.get('date')}, renew it with: {command}"
            digests = {"recorded": recorded, "now": recording.reward_digest, "compared": recording.compared}
            yield Found(message, Evidence(details=digests), Place(recording.file), f"Run: {command}")


@rule("REC004", gate="distribution")
def recording_is_damaged(subject: Subject) -> Iterator[Found]:
    """A recording cannot be read.

    What: Both files of a recording exist, are complete and at most 2 MB, every line is one rollout, and none contains a
    text that looks like a key.
    Why: The recording is missing from every comparison. A recording that cannot be read is not compared.
    Fix: Restore the files from git, or renew the recording.
    """
    for recording in subject.facts.recordings:
        for problem in recording.problems[:10]:
            count = len(recording.problems)
            more = "" if count == 1 else f" (one of {count} problems)"
            fix = f"Restore it from git, or run: {_renewal(subject, recording)}"
            yield Found(f"{problem.message}{more}", Evidence(count=count), Place(problem.file, problem.line), fix)


@rule("REC005", gate="distribution", severity="warning")
def recording_is_not_compared(subject: Subject) -> Iterator[Found]:
    """Part of a recording could not be compared.

    What: Every recorded reply with a reward can be scored again, and earns the same twice.
    Why: A reply that cannot be compared does not protect the reward: its task is gone, its environment replies
    differently each time, or its judge is unreachable.
    Fix: Renew the recording if tasks have changed. Rewards that need a judge or chance cannot be compared. Their
    recording keeps only the baseline.
    """
    for recording in subject.facts.recordings:
        place = Place(recording.file)
        if recording.failure:
            yield Found(f"scoring the recording again failed: {recording.failure}", Evidence(), place)
        for one in recording.not_compared:
            if one.reason != BEYOND:
                rewarded = sum(row.reward is not None for row in recording.rows)
                message = f"{one.count} of {rewarded} recorded replies could not be compared: {one.reason}"
                evidence = Evidence(count=one.count, of=rewarded, details={"compared": recording.compared})
                yield Found(message, evidence, Place(recording.file, one.first_line))


@rule("REC006", gate="distribution", severity="warning")
def recording_is_of_another_version(subject: Subject) -> Iterator[Found]:
    """Recorded replies earn a different reward under another version.

    What: Same as REC001, if project.version differs from the recorded one.
    Why: The baseline measures a reward that is no longer in use, so drift against it means nothing.
    Fix: Renew the recording under the new version.
    """
    for recording in _changed_recordings(subject, bumped=True):
        message, evidence, place = _changed(subject.facts, recording, recording.file)
        was, fix = recording.baseline.get("package_version"), f"Run: {_renewal(subject, recording)}"
        yield Found(f"{message}; it was recorded with version {was}", evidence, place, fix)
