"""Signatures of training runs that go wrong, each with the change of configuration that it asks for.

Every finding's evidence says which metric and steps it is from, `change` (keys of the run in
registry.yaml and their new values), `next` and `stop`.
"""

from __future__ import annotations

from collections.abc import Iterator

from envops.rules.diagnosis.subject import LEAST_RATE, LEAST_STEPS, Diagnosed
from envops.rules.engine import Found, rule

NOTHING_EARNED = 0.02
NEARLY_ALL = 0.95
SWING = 0.12
DROP = 0.5
GOOD = 0.8
NOTICEABLE = 0.02
COLLAPSED = 0.25
MOST_LORA_RATE, MOST_FULL_RATE = 1e-4, 1e-5


@rule("DGN001", gate="diagnosis")
def reward_stays_at_nothing(run: Diagnosed) -> Iterator[Found]:
    """The reward is flat near zero.

    What: Over the last half of at least 20 steps the mean reward is below 2 % of the range, and has not risen.
        Source: prime-rl docs/training.md (groups that all fail teach nothing); the 2 % are ours.
    Why: Where nothing is earned, every group agrees and no gradient says what to do: more steps change nothing.
    Fix: Make the task reachable: easier tasks first, partial credit, a stronger model; larger groups find rare
        successes.
    """
    reward = run.reward
    if reward is None or run.share(reward.tail(0.5)) >= NOTHING_EARNED:
        return
    if run.share(reward.tail()) - run.share(reward.head()) > NOTICEABLE:
        return
    earned = reward.tail(0.5)
    yield run.found(
        f"the reward is {earned:.3g} after {reward.last_step} steps, {run.share(earned):.1%} of its range",
        series=reward,
        steps=reward.last_steps(0.5),
        change=run.scaled("rollouts_per_example", 2, most=64) | run.scaled("batch_size", 2, most=4096),
        then="evaluate the model first (nox -s distribution -- NAME --endpoint E), drop tasks that earn nothing",
        stop="stop now; begin again when the baseline is above 5 % of the range",
        mean=earned,
    )


@rule("DGN002", gate="diagnosis", severity="warning")
def reward_is_saturated(run: Diagnosed) -> Iterator[Found]:
    """The reward is at its top.

    What: Over the last fifth of at least 20 steps the mean reward is above 95 % of the range. Source: DAPO, arXiv
        2503.14476, section 3.2 (tasks that are always solved give no gradient); the 95 % are ours.
    Why: What is left to gain is noise; the policy drifts, and looks for what pays without being better.
    Fix: Stop and keep the checkpoint, or go on with harder tasks.
    """
    reward = run.reward
    if reward is None or run.share(reward.tail()) <= NEARLY_ALL:
        return
    begun = run.share(reward.head()) > NEARLY_ALL
    since = "from the start" if begun else f"by step {reward.last_step}"
    yield run.found(
        f"the reward is {run.share(reward.tail()):.0%} of its range {since}",
        series=reward,
        steps=(reward.first_step, reward.last_step) if begun else reward.last_steps(0.2),
        change=run.filtered(),
        then="choose harder tasks: this model has nothing to learn here"
        if begun
        else "nox -s compare -- NAME --before BASELINE --after CHECKPOINT; look at rollouts for what is not meant",
        stop="stop now; every further step costs without gaining",
        mean=reward.tail(),
    )


@rule("DGN003", gate="diagnosis")
def reward_swings(run: Diagnosed) -> Iterator[Found]:
    """The reward swings, or has fallen far.

    What: The median step-to-step change is above 12 % of the range, or the last fifth lies below half of the best
        fifth that was reached. Source: prime-rl docs/training.md (noisy gradients of small batches, a lower learning
        rate where it diverges); both bounds are ours.
    Why: Updates are larger than what a batch can tell: a too high learning rate, or too few rollouts per step.
    Fix: Lower the learning rate to a third, double the batch, and go back to the best checkpoint.
    """
    reward = run.reward
    if reward is None:
        return
    width = run.highest - run.lowest
    part = max(5, len(reward.values) // 5)
    windows = [sum(reward.values[at : at + part]) / part for at in range(len(reward.values) - part + 1)]
    best, last = run.share(max(windows)), run.share(windows[-1])
    best_step = reward.points[windows.index(max(windows)) + part - 1][0]
    swings = reward.jumps > SWING * width
    fell = best > 0.1 and last < best * (1 - DROP)
    if not swings and not fell:
        return
    said = f"it fell from {best:.0%} to {last:.0%} of its range" if fell else f"it changes by {reward.jumps:.3g} a step"
    change = run.scaled("learning_rate", 1 / 3, least=LEAST_RATE)
    yield run.found(
        f"the reward is unstable: {said}",
        series=reward,
        steps=(best_step, reward.last_step) if fell else None,
        change=change | (run.scaled("batch_size", 2, most=4096) if swings else {}),
        then="start again from the best checkpoint with the smaller learning rate",
        stop="stop if the reward has not come back to its best within 20 steps",
        best=best,
        last=last,
    )


@rule("DGN004", gate="diagnosis", severity="advice")
def reward_rises_slowly(run: Diagnosed) -> Iterator[Found]:
    """The reward rises, slowly and steadily.

    What: The trend (Theil and Sen) is upwards and clear of the step-to-step noise, and would need more than three
        times the planned steps to reach 80 % of the range. Source: H. Theil, 1950, and P. Sen, JASA 63, 1968, for the
        trend; the bounds are ours.
    Why: The run is sound and will end before it is good.
    Fix: Double the learning rate within its band, or plan more steps.
    """
    reward, planned = run.reward, run.planned_steps
    if reward is None or planned is None or reward.slope <= 0:
        return
    now, width = run.share(reward.tail()), run.highest - run.lowest
    gained = reward.slope * len(reward.points) / width
    if now >= GOOD or gained < NOTICEABLE or reward.jumps > SWING * width:
        return
    needed = reward.last_step + (GOOD - now) * width / reward.slope
    if needed <= 3 * planned:
        return
    most = MOST_LORA_RATE if run.spec is not None and run.spec.lora is not None else MOST_FULL_RATE
    yield run.found(
        f"the reward rises by {reward.slope:.2g} a step: 80 % takes {needed:,.0f} steps, planned are {planned}",
        series=reward,
        change=run.scaled("learning_rate", 2, most=most),
        then="keep everything else; compare the slope after 20 steps",
        stop="stop if the slope has not at least doubled within 50 steps",
        slope=reward.slope,
    )


@rule("DGN005", gate="diagnosis")
def variance_collapses(run: Diagnosed) -> Iterator[Found]:
    """Replies become all alike.

    What: The entropy of the policy, or the spread of rewards within groups, has fallen below a quarter of what it was
        at the start, while the reward is not at its top. Source: DAPO, arXiv 2503.14476, section 3.1 (entropy
        collapse), and prime-rl docs/training.md (entropy that is too low is mode collapse); the quarter is ours.
    Why: A policy that says one thing cannot find anything better: what it earns now is what it will earn.
    Fix: Sample at temperature 1, halve the learning rate, go back to a checkpoint before the fall.
    """
    reward = run.reward
    if reward is not None and run.share(reward.tail()) > NEARLY_ALL:
        return
    for name in ("entropy", "reward_std"):
        series = run.series.get(name)
        if series is None or len(series.points) < LEAST_STEPS or series.head() <= 0:
            continue
        if name == "reward_std" and reward is not None and run.share(reward.tail(0.5)) < NOTHING_EARNED:
            continue  # nothing is earned at all, which is another matter
        left = series.tail() / series.head()
        if left >= COLLAPSED:
            continue
        change = run.scaled("learning_rate", 0.5, least=LEAST_RATE)
        if run.spec is not None and run.spec.sampling.temperature < 1:
            change |= {"sampling.temperature": 1.0}
        yield run.found(
            f"{series.metric} fell to {left:.0%} of what it was ({series.head():.3g} to {series.tail():.3g})",
            series=series,
            steps=series.steps_below(COLLAPSED * series.head()),
            change=change,
            then="look at rollouts of one task side by side; go back to a checkpoint from before the fall",
            stop=f"stop if {series.metric} goes on falling for 10 steps",
            left=left,
        )
