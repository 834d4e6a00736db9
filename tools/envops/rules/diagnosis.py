"""Diagnoses of training runs: only what their logs prove.

A rule reports logged facts and their direct meaning: nothing was earned, a declared limit is exceeded, a number is not
finite. Trends of the reward, the entropy, the KL divergence and the gradient norm are curves of the report: no bound on
them was ever calibrated, so no rule judges them. A change of the registry is suggested only if it follows from the log.

Every finding's evidence has the metric and the steps, `change` (keys of the run in registry.yaml and their new
values), `next`, `stop` and `source`, the origin of the advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from envops.rules.engine import Found, Gate, rule
from envops.rules.evidence import Evidence

if TYPE_CHECKING:
    from envops.repository.run import RunSpec
    from envops.rules.runs.trainer import TrainerLimits
    from envops.statistics.series import Series

OWN = "this project's own"
PRIME_RL = "prime-rl docs/training.md"
VERIFIERS = "verifiers docs/legacy/training.md"
DAPO = "DAPO, arXiv 2503.14476"
MOST_WITHOUT_VARIANCE = 0.5
MOST_TRUNCATED = 0.1
MOST_ERRORS = 0.05
OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|No available memory for the cache blocks"
    r"|KV cache is needed.{0,80}larger than|Killed process \d+|oom-kill|MemoryError|exit code 137"
    r"|NCCL.{0,40}out of memory",
    re.IGNORECASE,
)
LEAST_GROUP = 8
"""Rollouts of a task: at least 8, by prime-rl docs/training.md."""
QUEUED = ("QUEUED", "PENDING")
MOST_NAMES = 8
"""Names of metrics that a message lists."""
LEAST_STEPS = 20
"""The least number of points; results over fewer may be chance."""


@dataclass(frozen=True)
class RunLog:
    """The log of one run. Rewards are as the trainer logged them."""

    gates: ClassVar[tuple[Gate, ...]] = ("diagnosis",)

    series: Mapping[str, Series] = field(default_factory=dict)
    spec: RunSpec | None = None
    """The declared run; `None` if the registry has none."""
    trainer: TrainerLimits | None = None
    status: str = ""
    """The state as the platform names it; empty without one."""
    names: tuple[str, ...] = ()
    """The metrics as the log names them."""
    missing_steps: tuple[int, ...] = ()
    broken: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Metric → steps at which it was not a finite number."""
    log: str = ""
    lowest: float = 0.0
    highest: float | None = None
    """The range of the reward, as the environment declares it; without a declaration the highest is unknown."""

    @property
    def ignore(self) -> Mapping[str, str]:
        """Rule id → the reason why it is ignored for this run."""
        return self.spec.ignore if self.spec else {}

    @property
    def reward(self) -> Series | None:
        """The reward, if enough of it is known to judge."""
        found = self.series.get("reward")
        return found if found is not None and len(found.points) >= LEAST_STEPS else None

    def found(
        self,
        message: str,
        *,
        series: Series | None = None,
        steps: tuple[int, int] | None = None,
        change: Mapping[str, Any] | None = None,
        then: str,
        stop: str,
        source: str,
        **evidence: Any,
    ) -> Found:
        """A finding with the change of the registry, the next step, when to stop, and the source of this advice.

        `steps` are those at which it shows, first and last; all of the series by default.
        """
        advice: dict[str, Any] = {
            **evidence,
            "change": dict(change or {}),
            "next": then,
            "stop": stop,
            "source": source,
        }
        if series is not None:
            advice |= {"metric": series.metric, "steps": [series.first_step, series.last_step]}
        if steps is not None:
            advice["steps"] = list(steps)
        return Found(message, Evidence(details=advice))

    def scaled(self, key: str, factor: float, least: float = 0.0, most: float = float("inf")) -> dict[str, Any]:
        """A change of one number of the declaration by a factor, within bounds; empty if it is at the bound."""
        if self.spec is None:
            return {}
        now: Any = self.spec
        for part in key.split("."):
            now = getattr(now, part, None)
        if not isinstance(now, int | float) or isinstance(now, bool):
            return {}
        wanted = min(most, max(least, now * factor))
        wanted = round(wanted) if isinstance(now, int) else float(f"{wanted:.3g}")
        return {} if wanted == now else {key: wanted}

    def filtered(self) -> dict[str, Any]:
        """The change that replaces groups without variance; empty if the trainer cannot."""
        if self.spec is None or self.spec.difficulty_filter or self.trainer is None:
            return {}
        return {"difficulty_filter": True} if self.trainer.replaces_groups else {}


@rule("DGN001", gate="diagnosis")
def nothing_is_earned(run: RunLog) -> Iterator[Found]:
    """No rollout earns anything.

    What: Over the last half of at least 20 steps the mean reward is the lowest of the declared range at every step.
        Source: prime-rl docs/training.md (groups that all fail teach nothing); for the order of the advice the skill
        train-with-environments of verifiers (a flat reward: difficulty, the rubric, the prompt's contract).
    Why: Without any reward, all groups have zero variance and there is no gradient: more steps change nothing.
    Fix: Read some rollouts: does the rubric accept the requested answer, in the format that the model writes?
        Then make the task reachable: easier tasks first, partial credit, a stronger model; larger groups find rare
        successes.
    """
    reward = run.reward
    if reward is None:
        return
    first, last = reward.last_steps(0.5)
    if all(value <= run.lowest for step, value in reward.points if step >= first):
        yield run.found(
            f"no rollout earned anything in steps {first} to {last}",
            series=reward,
            steps=(first, last),
            then="compare some rollouts with the rubric and the format of the answer; if both fit, evaluate the model "
            "(nox -s distribution -- NAME --endpoint E) and drop tasks without any reward",
            stop="stop now; restart when the model earns a reward before training",
            source=f"{PRIME_RL}; the skill train-with-environments of verifiers",
            mean=reward.tail(0.5),
        )


@rule("DGN002", gate="diagnosis", severity="warning")
def everything_is_earned(run: RunLog) -> Iterator[Found]:
    """Every rollout earns everything.

    What: Over the last fifth of at least 20 steps the mean reward is the highest of the declared range at every step.
        Source: DAPO, arXiv 2503.14476, section 3.2 (tasks that are always solved give no gradient).
    Why: Every group agrees, so no step teaches anything.
    Fix: Stop and keep the checkpoint, or continue with harder tasks.
    """
    reward = run.reward
    if reward is None or run.highest is None:
        return
    first, last = reward.last_steps(0.2)
    if all(value >= run.highest for step, value in reward.points if step >= first):
        yield run.found(
            f"every rollout earned {run.highest:g}, the maximum, in steps {first} to {last}",
            series=reward,
            steps=(first, last),
            then="nox -s compare -- NAME --before BASELINE --after CHECKPOINT; look for exploits in the rollouts",
            stop="stop now; further steps cost GPU time and improve nothing",
            source=f"{DAPO}, section 3.2",
            mean=reward.tail(),
        )


@rule("DGN006", gate="diagnosis")
def rollouts_are_too_old(run: RunLog) -> Iterator[Found]:
    """Rollouts are older than the run allows.

    What: Over the last fifth, the mean age of rollouts is above the declared `max_off_policy_steps`. Source: prime-rl
        docs/training.md.
    Why: Gradients are computed on replies that the policy would no longer give, and the declared limit is exceeded.
    Fix: Find out why sampling is slower than training: more GPUs for inference, or shorter replies.
    """
    limit = run.spec.max_off_policy_steps if run.spec is not None else None
    series = run.series.get("off_policy")
    if limit is None or series is None or len(series.points) < LEAST_STEPS or series.tail() <= limit:
        return
    yield run.found(
        f"rollouts are {series.tail():.3g} steps old on average, {limit} are allowed ({series.metric})",
        series=series,
        steps=series.steps_above(float(limit)),
        then="compare the time of a step with the time of its rollouts",
        stop="stop if the age keeps growing",
        source=PRIME_RL,
        age=series.tail(),
    )


@rule("DGN007", gate="diagnosis")
def most_groups_have_no_variance(run: RunLog) -> Iterator[Found]:
    """Most groups have no variance.

    What: Over the last fifth, more than half of the groups have equal rewards. Source: DAPO, arXiv 2503.14476, section
        3.2; the half is this project's own; for the order of the advice verifiers docs/legacy/training.md (slow
        training: difficulty).
    Why: They cost compute and give no gradient; the batch is smaller than declared, and learning is slow.
    Fix: Look at the difficulty of the tasks first. Then filter and replace such groups, or use larger ones.
    """
    series = run.series.get("zero_variance")
    if series is None or series.tail() <= MOST_WITHOUT_VARIANCE:
        return
    larger = run.scaled("group_size", 2, most=64) | run.scaled("batch_size", 2, most=4096)
    yield run.found(
        f"{series.tail():.0%} of the groups have no variance ({series.metric})",
        series=series,
        steps=series.last_steps(0.2),
        change=run.filtered() or larger,
        then="look at the difficulty first: drop tasks that are always or never solved (docs/distribution.md names "
        "them), or shape the reward",
        stop="stop if the share stays above a half for 20 steps after the change",
        source=f"{DAPO}, section 3.2; {VERIFIERS}",
        share=series.tail(),
    )


@rule("DGN008", gate="diagnosis")
def replies_are_cut(run: RunLog) -> Iterator[Found]:
    """Replies are cut off at their limit.

    What: Over the last fifth, more than a tenth of the rollouts are truncated. Source: DAPO, arXiv 2503.14476, section
        3.4 (penalised truncated replies are noise in the reward); the tenth is this project's own.
    Why: The answer is at the end: a truncated reply earns nothing, right or not, and the policy learns to be short
        instead of right.
    Fix: Raise sampling.max_tokens, and seq_len with it.
    """
    series = run.series.get("truncated")
    if series is None or series.tail() <= MOST_TRUNCATED:
        return
    change = run.scaled("sampling.max_tokens", 2)
    wanted = change.get("sampling.max_tokens")
    if run.spec is not None and wanted is not None and wanted >= run.spec.seq_len:
        change |= {"seq_len": 2 * run.spec.seq_len}
    yield run.found(
        f"{series.tail():.0%} of the rollouts are truncated ({series.metric})",
        series=series,
        steps=series.last_steps(0.2),
        change=change,
        then="check whether truncated replies repeat themselves: then the model is at fault, not the limit",
        stop="stop if it is still above a tenth 20 steps after the change",
        source=f"{DAPO}, section 3.4",
        share=series.tail(),
    )


@rule("DGN009", gate="diagnosis")
def rollouts_break(run: RunLog) -> Iterator[Found]:
    """Rollouts end with errors.

    What: Over the last fifth, more than 5 % of the rollouts end with an error. Source: prime-rl docs/training.md.
    Why: They earn nothing or are left out; either way the rest is a biased sample.
    Fix: Read the environment server's log; fewer rollouts in flight (`max_concurrent`) relieve sandboxes and judges.
    """
    series = run.series.get("errors")
    if series is None or series.tail() <= MOST_ERRORS:
        return
    yield run.found(
        f"{series.tail():.0%} of the rollouts end with an error ({series.metric})",
        series=series,
        steps=series.last_steps(0.2),
        then="read the environment server's log: prime train logs ID, or the trainer's own",
        stop="stop at once if it is above a fifth",
        source=PRIME_RL,
        share=series.tail(),
    )


@rule("DGN010", gate="diagnosis")
def memory_ran_out(run: RunLog) -> Iterator[Found]:
    """Memory ran out.

    What: The trainer's output has no out-of-memory error of CUDA, vLLM or the kernel. Source: verifiers
        docs/legacy/training.md (fewer rollouts of a task, an adapter); the skill train-with-environments of verifiers
        (rollouts and lengths before anything larger).
    Why: The run ends there, or continues without the killed process.
    Fix: Fewer rollouts, then shorter sequences; then an adapter instead of full fine-tuning.
    """
    match = OUT_OF_MEMORY.search(run.log)
    if match is None:
        return
    start = run.log.rfind("\n", 0, match.start()) + 1
    line = run.log[start : run.log.find("\n", match.end()) if "\n" in run.log[match.end() :] else None]
    then = "if it still does not fit, lower the limit of replies (sampling.max_tokens)"
    if run.spec is not None and run.spec.lora is None:
        then += ", then train an adapter (lora: {rank: 16})"
    yield run.found(
        "memory ran out: " + " ".join(line.split())[:200],
        change=_fewer_rollouts(run) or _shorter_sequences(run),
        then=then,
        stop="the run does not resume by itself; restart it from its last checkpoint",
        source=f"{VERIFIERS}; the skill train-with-environments of verifiers",
        line=" ".join(line.split())[:500],
    )


def _fewer_rollouts(run: RunLog) -> dict[str, Any]:
    """Half the rollouts of each task and step; empty if groups are small or cannot be halved."""
    spec = run.spec
    if spec is None or any(source.group_size for source in spec.environments):
        return {}
    if spec.group_size < 2 * LEAST_GROUP or spec.group_size % 2:
        return {}
    return run.scaled("group_size", 0.5) | run.scaled("batch_size", 0.5)


def _shorter_sequences(run: RunLog) -> dict[str, Any]:
    change = run.scaled("seq_len", 0.5, least=512)
    if run.spec is not None and change.get("seq_len", 0) and change["seq_len"] <= run.spec.sampling.max_tokens:
        change |= {"sampling.max_tokens": change["seq_len"] // 2}
    return change


@rule("DGN011", gate="diagnosis")
def numbers_broke(run: RunLog) -> Iterator[Found]:
    """A metric is not a finite number.

    What: Loss, reward, gradient norm and KL are finite at every step. Source: IEEE 754, where a NaN stays one
        through every sum.
    Why: The weights are lost from that step on, and later metrics are meaningless.
    Fix: Resume from a checkpoint before that step, and check the rollouts and the learning rate there.
    """
    telling = ("loss", "reward", "grad_norm", "kl", "entropy")
    for metric, steps in run.broken.items():
        known = [name for name in telling if name in metric.lower()]
        if known and steps:
            yield run.found(
                f"{metric} is not finite at step {steps[0]}"
                + (f" and {len(steps) - 1} more" if len(steps) > 1 else ""),
                then=f"resume from a checkpoint before step {steps[0]}",
                stop="stop now: NaN weights do not recover",
                source="IEEE 754",
                metric=metric,
                steps=(steps[0], steps[-1]),
            )


@rule("DGN013", gate="diagnosis", severity="warning")
def steps_are_missing(run: RunLog) -> Iterator[Found]:
    """Metrics have gaps.

    What: No step is missing between the first and the last logged one. Source: this project's own.
    Why: Means and trends cover only the logged steps; a gap can hide the failure.
    Fix: Check whether the trainer was restarted or the file was truncated.
    """
    if run.missing_steps:
        first = ", ".join(map(str, run.missing_steps[:8]))
        more = f" and {len(run.missing_steps) - 8} more" if len(run.missing_steps) > 8 else ""
        yield run.found(
            f"no metric was logged at steps {first}{more}",
            then="compare with the checkpoints: a restart repeats steps, a crash loses them",
            stop="do not stop: the run may be sound",
            source=OWN,
            missing=list(run.missing_steps[:50]),
        )


@rule("DGN014", gate="diagnosis")
def run_is_gone(run: RunLog) -> Iterator[Found]:
    """The run failed, was stopped, or does not exist.

    What: The platform has the run, and its status is neither failed nor stopped. Source: prime 0.18.0, `prime train`.
    Why: It will not continue by itself.
    Fix: Read the end of its log, then submit a changed declaration: the platform restarts running runs only.
    """
    status = run.status.upper()
    if status == "MISSING" or (status in ("FAILED", "STOPPED", "CANCELLED")):
        message = "is not among the platform's runs" if status == "MISSING" else f"is {status.lower()}"
        yield run.found(
            f"the run {message}",
            then="prime train logs ID shows why; a changed declaration is a new run, and is submitted"
            if status != "MISSING"
            else "it was deleted, or belongs to another team (PRIME_TEAM_ID); submit it again with: nox -s train",
            stop="it has ended",
            source="prime 0.18.0, `prime train`",
            status=run.status,
        )


@rule("DGN015", gate="diagnosis", severity="advice")
def too_few_steps(run: RunLog) -> Iterator[Found]:
    """There is too little data to judge.

    What: The reward is logged at 20 steps or more. Source: this project's own.
    Why: Results over fewer steps may be due to chance.
    Fix: Wait.
    """
    known = run.series.get("reward")
    count = len(known.points) if known is not None else 0
    if run.status.upper() in QUEUED and not count:
        yield run.found(
            "the run is queued: it waits for its GPUs, and no step was logged yet",
            then="run again later",
            stop="none yet",
            source=OWN,
            status=run.status,
        )
    elif run.names and not count:
        return  # DGN016 reports it
    elif count < LEAST_STEPS and run.status.upper() not in ("MISSING", "FAILED", "STOPPED", "CANCELLED"):
        what = f"the reward was logged at {count} steps" if count else "no reward metric was found"
        yield run.found(
            f"{what}; {LEAST_STEPS} are needed to judge it",
            then="run again later",
            stop="none yet",
            source=OWN,
        )


@rule("DGN016", gate="diagnosis", severity="warning")
def reward_is_not_logged(run: RunLog) -> Iterator[Found]:
    """The log has metrics, but no reward.

    What: Among the metrics of a log is the reward, under a name that docs/training.md lists. Source: this project's
        own.
    Why: Without the reward, nothing of the run is judged.
    Fix: Log the metric as `reward`, or report the name if it is that of a trainer.
    """
    if run.names and "reward" not in run.series:
        near = sorted(run.names, key=lambda name: ("reward" not in name and "score" not in name, name))[:MOST_NAMES]
        yield run.found(
            f"no reward metric was found among {len(run.names)}: {', '.join(near)}"
            + (", …" if len(run.names) > MOST_NAMES else ""),
            then="log the reward as `reward`; docs/training.md lists the names that are recognised",
            stop="do not stop: the run may be sound",
            source=OWN,
            names=list(near),
        )
