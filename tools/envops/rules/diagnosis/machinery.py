"""Signatures of trouble beside the reward: drift, dead groups, cut and broken rollouts, memory, lost numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envops.rules.diagnosis.subject import LEAST_RATE, LEAST_STEPS, Diagnosed
from envops.rules.engine import Found, rule

MOST_DEAD = 0.5
MOST_TRUNCATED = 0.1
MOST_ERRORS = 0.05
KL_LIMIT = 0.05
GROWTH = 3.0
SPIKE = 10.0
OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|No available memory for the cache blocks"
    r"|KV cache is needed.{0,80}larger than|Killed process \d+|oom-kill|MemoryError|exit code 137"
    r"|NCCL.{0,40}out of memory",
    re.IGNORECASE,
)


@rule("DGN006", gate="diagnosis")
def policy_drifts(run: Diagnosed) -> Iterator[Found]:
    """The trained policy and the sampled one drift apart.

    What: The KL divergence between them has grown to more than three times its start and above 0.05, or rollouts are
        older than max_off_policy_steps allows on average. Source: prime-rl docs/training.md, which calls a growing
        mismatch the early sign of an off-policy collapse; the factor and the 0.05 are ours.
    Why: Gradients are taken on what the policy would no longer say.
    Fix: Take younger rollouts only, halve the learning rate.
    """
    limit = run.spec.max_off_policy_steps if run.spec is not None else None
    for name in ("kl", "off_policy"):
        series = run.series.get(name)
        if series is None or len(series.points) < LEAST_STEPS:
            continue
        grown = series.tail() > max(GROWTH * abs(series.head()), KL_LIMIT) if name == "kl" else False
        old = name == "off_policy" and limit is not None and series.tail() > limit
        if not grown and not old:
            continue
        most = max(GROWTH * abs(series.head()), KL_LIMIT) if grown else float(limit or 0)
        change = run.scaled("learning_rate", 0.5, least=LEAST_RATE)
        if run.spec is not None and run.spec.backend in ("prime", "prime-rl"):
            change |= {"max_off_policy_steps": max(1, (limit or 8) // 2)}
        yield run.found(
            f"{series.metric} went from {series.head():.3g} to {series.tail():.3g}",
            series=series,
            steps=series.steps_above(most),
            change=change,
            then="go back to the last checkpoint before it grew",
            stop=f"stop if {series.metric} doubles again",
        )


@rule("DGN007", gate="diagnosis")
def groups_are_dead_in_training(run: Diagnosed) -> Iterator[Found]:
    """Most groups have no variance.

    What: Over the last fifth, more than half of the groups have equal rewards. Source: DAPO, arXiv 2503.14476, section
        3.2; the half is ours.
    Why: They are paid for and give no gradient; the batch is smaller than it says.
    Fix: Filter them and draw others, or use larger groups.
    """
    series = run.series.get("dead_groups")
    if series is None or series.tail() <= MOST_DEAD:
        return
    larger = run.scaled("rollouts_per_example", 2, most=64) | run.scaled("batch_size", 2, most=4096)
    yield run.found(
        f"{series.tail():.0%} of the groups have no variance ({series.metric})",
        series=series,
        steps=series.last_steps(0.2),
        change=run.filtered() or larger,
        then="drop tasks that are always or never solved; docs/distribution.md names them",
        stop="stop if the share stays above a half for 20 steps after the change",
        share=series.tail(),
    )


@rule("DGN008", gate="diagnosis")
def replies_are_cut(run: Diagnosed) -> Iterator[Found]:
    """Replies are cut off at their limit.

    What: Over the last fifth, more than a tenth of the rollouts are truncated. Source: DAPO, arXiv 2503.14476, section
        3.4 (cut replies that are punished for their length are noise in the reward); the tenth is ours.
    Why: The answer stands at the end: what is cut earns nothing, whether it was right or not, and the policy learns to
        be short instead of right.
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
        then="look at whether cut replies repeat themselves: then the model and not the limit is at fault",
        stop="stop if it is still above a tenth 20 steps after the change",
        share=series.tail(),
    )


@rule("DGN009", gate="diagnosis")
def rollouts_break(run: Diagnosed) -> Iterator[Found]:
    """Rollouts end with errors.

    What: Over the last fifth, more than 5 % of the rollouts end with an error. Source: prime-rl docs/training.md.
    Why: They earn nothing, or are left out; either way the rest is no fair sample of what the policy does.
    Fix: Read the environment server's log; fewer rollouts in flight relieve sandboxes and judges.
    """
    series = run.series.get("errors")
    if series is None or series.tail() <= MOST_ERRORS:
        return
    yield run.found(
        f"{series.tail():.0%} of the rollouts end with an error ({series.metric})",
        series=series,
        steps=series.last_steps(0.2),
        change=run.scaled("max_concurrent", 0.5, least=run.spec.rollouts_per_example if run.spec else 1),
        then="read the environment server's log: prime train logs ID, or the trainer's own",
        stop="stop at once if it is above a fifth",
        share=series.tail(),
    )


@rule("DGN010", gate="diagnosis")
def memory_ran_out(run: Diagnosed) -> Iterator[Found]:
    """Memory ran out.

    What: What the trainer printed has words of CUDA, vLLM or the kernel about memory that is used up.
    Why: The run ends there, or goes on without the process that was ended.
    Fix: Shorter sequences, or more GPUs to spread them over.
    """
    said = OUT_OF_MEMORY.search(run.log)
    if said is None:
        return
    start = run.log.rfind("\n", 0, said.start()) + 1
    line = run.log[start : run.log.find("\n", said.end()) if "\n" in run.log[said.end() :] else None]
    change = run.scaled("seq_len", 0.5, least=512)
    if run.spec is not None and change.get("seq_len", 0) and change["seq_len"] <= run.spec.sampling.max_tokens:
        change |= {"sampling.max_tokens": change["seq_len"] // 2}
    yield run.found(
        "memory ran out: " + " ".join(line.split())[:200],
        change=change,
        then="if sequences must be as long, double gpus.train, or train an adapter (lora: {rank: 16})",
        stop="the run does not go on by itself; start it again from its last checkpoint",
        line=" ".join(line.split())[:500],
    )


@rule("DGN011", gate="diagnosis")
def numbers_broke(run: Diagnosed) -> Iterator[Found]:
    """A metric is no number any more.

    What: Loss, reward, gradient norm or KL was NaN or infinite at some step. Source: IEEE 754, where a NaN stays one
        through every sum.
    Why: The weights are lost from there on; what is logged afterwards means nothing.
    Fix: Go back to a checkpoint before that step with a smaller learning rate.
    """
    telling = ("loss", "reward", "grad_norm", "kl", "entropy")
    for metric, steps in run.broken.items():
        known = [name for name in telling if name in metric.lower()]
        if known and steps:
            yield run.found(
                f"{metric} is no finite number at step {steps[0]}"
                + (f" and {len(steps) - 1} more" if len(steps) > 1 else ""),
                change=run.scaled("learning_rate", 0.5, least=LEAST_RATE),
                then=f"resume from a checkpoint before step {steps[0]}",
                stop="stop now: weights that are no numbers do not recover",
                metric=metric,
                steps=(steps[0], steps[-1]),
            )


@rule("DGN012", gate="diagnosis", severity="warning")
def gradient_spikes(run: Diagnosed) -> Iterator[Found]:
    """The gradient spikes.

    What: In the last fifth some gradient norm is more than ten times the median. Source: prime-rl docs/training.md:
        spikes come before divergence; the factor is ours.
    Why: One batch moves the policy further than the ten before it.
    Fix: Halve the learning rate; larger batches make single rollouts count less.
    """
    series = run.series.get("grad_norm")
    if series is None or len(series.points) < LEAST_STEPS:
        return
    middle = sorted(series.values)[len(series.values) // 2]
    recent = series.points[-max(1, len(series.points) // 5) :]
    step, highest = max(recent, key=lambda point: point[1])
    if middle > 0 and highest > SPIKE * middle:
        yield run.found(
            f"{series.metric} is {highest:.3g} at step {step}, {highest / middle:.0f} times its median",
            series=series,
            steps=(step, step),
            change=run.scaled("learning_rate", 0.5, least=LEAST_RATE),
            then="look at the rollouts of that step",
            stop="stop if it happens in three of ten steps",
        )


@rule("DGN013", gate="diagnosis", severity="warning")
def steps_are_missing(run: Diagnosed) -> Iterator[Found]:
    """Metrics have gaps.

    What: Between the first and the last step that was logged, none is missing.
    Why: Means and trends are of what is there; a gap may be where it broke.
    Fix: Look at whether the trainer was started again, or the file was cut.
    """
    if run.missing_steps:
        first = ", ".join(map(str, run.missing_steps[:8]))
        more = f" and {len(run.missing_steps) - 8} more" if len(run.missing_steps) > 8 else ""
        yield run.found(
            f"nothing is known of steps {first}{more}",
            then="compare with the checkpoints: a restart repeats steps, a crash loses them",
            stop="none: the run may be sound",
            missing=list(run.missing_steps[:50]),
        )


@rule("DGN014", gate="diagnosis")
def run_is_gone(run: Diagnosed) -> Iterator[Found]:
    """The run failed, was stopped, or is not there.

    What: The platform has the run, and does not call it failed or stopped.
    Why: Nothing more will come of it by itself.
    Fix: Read its log's end; restart it, or submit a changed declaration.
    """
    status = run.status.upper()
    if status == "MISSING" or (status in ("FAILED", "STOPPED", "CANCELLED")):
        said = "is not among the platform's runs" if status == "MISSING" else f"is {status.lower()}"
        yield run.found(
            f"the run {said}",
            then="prime train logs ID shows why; prime train restart ID goes on from the last checkpoint"
            if status != "MISSING"
            else "it was deleted, or belongs to another team (PRIME_TEAM_ID); submit it anew with: nox -s train",
            stop="it has ended",
            status=run.status,
        )


@rule("DGN015", gate="diagnosis", severity="advice")
def too_early_to_tell(run: Diagnosed) -> Iterator[Found]:
    """There is too little to tell.

    What: The reward is known at 20 steps or more.
    Why: Fewer points have no trend that could be told from noise.
    Fix: Wait.
    """
    known = run.series.get("reward")
    count = len(known.points) if known is not None else 0
    if count < LEAST_STEPS and run.status.upper() not in ("MISSING", "FAILED", "STOPPED", "CANCELLED"):
        what = f"the reward is known at {count} steps" if count else "no metric is known that names a reward"
        yield run.found(
            f"{what}; {LEAST_STEPS} are needed to judge a trend",
            then="ask again later"
            if count
            else "name the metric `reward`, or see docs/training.md for the names that are read",
            stop="none yet",
        )
