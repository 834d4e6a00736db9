"""Rules of training runs: settings that contradict each other, whether or not the trainer's schema rejects them.

Read from the compiled configuration, so that overrides count. Settings that prime-rl's own schema accepts although they
cannot work were measured on 559b447 (2026-08-21).
"""

from __future__ import annotations

from collections.abc import Iterator

from envwright.repository.registry import declare_eval
from envwright.rules.engine import Found, rule
from envwright.rules.runs.subject import RunSubject

GROUP_RELATIVE = ("grpo", "max_rl", "rloo")


@rule("RUN020", gate="run")
def batch_tears_groups(run: RunSubject) -> Iterator[Found]:
    """The batch is not made of whole groups.

    What: The batch in rollouts is a multiple of every environment's rollouts per example. prime-rl's August schema
        checks the run's own group size and not those of the environments.
    Why: The advantages of a split group are computed from a part of it, or it waits for the next step.
    Fix: Choose a batch that every group size divides.
    """
    settings = run.settings
    for name, size in settings.groups.items():
        if settings.batch is not None and settings.batch % size:
            near = max(size, round(settings.batch / size) * size)
            message = f"{settings.batch} rollouts per step are not a multiple of the group size {size} ({name})"
            yield run.found("batch_size", message, f"Set batch_size to {near}.", environment=name)


@rule("RUN021", gate="run")
def groups_of_one(run: RunSubject) -> Iterator[Found]:
    """A group has only one rollout.

    What: A group-relative algorithm has at least two rollouts of each task. prime-rl accepts one, and it is its
        default. Source: prime-rl docs/algorithms.md; it aborts after repeated empty batches.
    Why: Every advantage is 0, and nothing is learned.
    Fix: Set group_size to 8 or more.
    """
    relative = [name for name in run.settings.algorithms if name in GROUP_RELATIVE]
    for name, size in run.settings.groups.items():
        if relative and size < 2:
            key = "group_size"
            yield run.found(
                key, f"one rollout of each task ({name}) gives {relative[0]} no advantage", environment=name
            )


@rule("RUN022", gate="run")
def too_few_in_flight(run: RunSubject) -> Iterator[Found]:
    """Fewer rollouts may be in flight than a group or the workers need.

    What: The limit of rollouts in flight is no less than the largest group and than the environments' workers.
        Source: prime-rl configs/orchestrator.py (groups).
    Why: A group would never be complete, or workers would be idle.
    Fix: Raise max_concurrent, to the batch or more.
    """
    limit, groups = run.settings.max_inflight, run.settings.groups
    largest = max(groups.values(), default=1)
    if limit is None or limit <= 0:
        return
    if limit < largest:
        yield run.found("max_concurrent", f"{limit} rollouts in flight cannot hold a group of {largest}")
    elif run.settings.workers is not None and limit < run.settings.workers:
        message = f"{limit} rollouts in flight leave workers idle: {run.settings.workers} are started"
        yield run.found("max_concurrent", message)


@rule("RUN023", gate="run")
def no_room_for_the_prompt(run: RunSubject) -> Iterator[Found]:
    """The token limit of a reply leaves no room for the prompt.

    What: The limit of one reply is less than the sequence length. prime-rl's schema does not compare them.
    Why: Sequences are cut where they exceed the length: the end of the reply, with the answer, is lost.
    Fix: Lower sampling.max_tokens or raise seq_len; prompt and every turn have to fit.
    """
    length = run.settings.seq_len
    for name, limit in run.settings.max_tokens.items():
        if length is not None and limit >= length:
            message = f"a reply of {limit} tokens ({name}) leaves no room for the prompt in {length}"
            yield run.found("sampling.max_tokens", message, environment=name)


@rule("RUN024", gate="run")
def sampler_sees_less_than_the_trainer(run: RunSubject) -> Iterator[Found]:
    """The sampler accepts shorter sequences than the trainer.

    What: vLLM's max_model_len is no less than the sequence length. prime-rl's schema does not compare them.
    Why: Rollouts end early with a length error, and long tasks never earn a reward.
    Fix: Leave max_model_len out, or raise it to seq_len.
    """
    length, limit = run.settings.seq_len, run.settings.max_model_len
    if length is not None and limit is not None and limit < length:
        yield run.found("seq_len", f"max_model_len {limit} is less than seq_len {length}")


@rule("RUN025", gate="run")
def evaluation_never_comes(run: RunSubject) -> Iterator[Found]:
    """The first evaluation would come after the last step.

    What: The interval of evaluation is no more than max_steps. prime-rl's schema does not compare them.
    Why: The run ends without any evaluation.
    Fix: Lower eval.interval.
    """
    interval, steps = run.settings.eval_interval, run.settings.max_steps
    if interval is not None and steps is not None and interval > steps:
        yield run.found("eval.interval", f"the first evaluation is at step {interval}, and the run has {steps}")


@rule("RUN026", gate="run")
def gpus_do_not_fit(run: RunSubject) -> Iterator[Found]:
    """The GPUs do not fit the node, or cannot be divided as requested.

    What: At least one GPU for each of training and sampling, no more in all than a node has, a multiple of
        tensor_parallel for sampling and of context_parallel for training. prime-rl accepts counts of 0 and below,
        and training GPUs that context_parallel does not divide.
    Why: After the wait in the queue, processes start on GPUs that do not exist.
    Fix: Correct the counts below gpus.
    """
    settings = run.settings
    for key, count in (("gpus.train", settings.train_gpus), ("gpus.inference", settings.inference_gpus)):
        if count is not None and count < 1:
            yield run.found(key, f"{key} is {count}")
    if settings.train_gpus is not None and settings.inference_gpus is not None and settings.gpus_per_node is not None:
        total = settings.train_gpus + settings.inference_gpus
        if total > settings.gpus_per_node:
            fix = "Use fewer, set gpus.per_node, or count nodes (gpus.train_nodes, gpus.inference_nodes)."
            yield run.found("gpus", f"{total} GPUs do not fit a node of {settings.gpus_per_node}", fix)
    inference = settings.inference_gpus if settings.inference_gpus is not None else settings.train_gpus
    if not settings.multi_node and inference and inference % settings.tensor_parallel:
        message = f"{inference} GPUs for sampling are not a multiple of tensor_parallel {settings.tensor_parallel}"
        yield run.found("gpus.tensor_parallel", message)
    if settings.train_gpus and settings.train_gpus % settings.context_parallel:
        parallel = settings.context_parallel
        message = f"{settings.train_gpus} GPUs for training are not a multiple of context_parallel {parallel}"
        yield run.found("gpus.context_parallel", message)
    if settings.multi_node and settings.gpus_per_node and settings.gpus_per_node % settings.tensor_parallel:
        message = (
            f"nodes of {settings.gpus_per_node} GPUs are not a multiple of tensor_parallel {settings.tensor_parallel}"
        )
        yield run.found("gpus.tensor_parallel", message)


@rule("RUN027", gate="run")
def adapters_need_files(run: RunSubject) -> Iterator[Found]:
    """Adapters cannot be sent by NCCL or NIXL.

    What: With lora, weights are broadcast through the file system. Source: prime-rl configs/rl.py.
    Why: The trainer refuses to start.
    Fix: Remove weight_broadcast from the overrides: prime-rl chooses a supported one.
    """
    settings = run.settings
    if settings.lora_rank is not None and settings.broadcast in ("nccl", "nixl"):
        yield run.found("overrides.weight_broadcast", f"LoRA adapters cannot be broadcast by {settings.broadcast}")


@rule("RUN028", gate="run")
def adapter_is_too_large(run: RunSubject) -> Iterator[Found]:
    """The adapter's rank exceeds the sampler's maximum.

    What: A rank of at most 512. prime-rl's schema accepts more, and its inference process then refuses the same
        configuration when it reads it again (measured on 559b447).
    Why: The run ends after its machines have been started.
    Fix: Lower lora.rank; 8 to 64 is usual.
    """
    rank, most = run.settings.lora_rank, run.trainer.most_lora_rank
    if most is not None and rank is not None and rank > most:
        yield run.found("lora.rank", f"rank {rank} is more than vLLM's {most}")


@rule("RUN029", gate="run", severity="warning")
def nothing_is_sampled(run: RunSubject) -> Iterator[Found]:
    """Training samples without temperature.

    What: The temperature of training is above 0.
    Why: Greedy replies to a task are identical: no group has variance, and nothing is learned.
    Fix: Set sampling.temperature to 1.0, at which the sampled policy is the trained one.
    """
    for name, temperature in run.settings.temperatures.items():
        if temperature == 0:
            yield run.found("sampling.temperature", f"temperature 0 ({name}) makes all replies of a group identical")


@rule("RUN030", gate="run", severity="warning")
def something_was_left_out(run: RunSubject) -> Iterator[Found]:
    """A declared setting has no place in the trainer's configuration.

    What: Every declared key has a place in the compiled configuration. `volume` is for hosted training, `agents` and
        `algorithm_settings` are for prime-rl, and only its schema `august` has a sampler for `difficulty`.
    Why: The run would silently differ from its declaration.
    Fix: Remove the key, choose another backend, or, for prime-rl, name the `schema` that supports it.
    """
    for line in run.left_out:
        key = line.partition(":")[0].partition(" ")[0]
        if run.spec.says(key):
            yield run.found(key, f"left out: {line}")
    spec, trainer = run.spec, run.trainer
    if spec.volume is not None and not trainer.hosted:
        yield run.found("volume", f"left out: volume: {spec.backend} writes to your own disk")
    if spec.algorithm_settings and not trainer.algorithm_settings:
        yield run.found("algorithm_settings", f"left out: algorithm_settings: {spec.backend} has none")
    if spec.difficulty is not None and not run.settings.difficulty_bounds:
        where = f"schema {spec.schema}" if trainer.schemas else spec.backend
        message = (
            f"left out: difficulty: envwright has no sampler by difficulty for {where}; use prime-rl, schema august"
        )
        yield run.found("difficulty", message)
    for index, source in enumerate(spec.environments):
        if source.agents and not trainer.many_agents:
            key = f"environments[{index}].agents"
            yield run.found(key, f"left out: {key}: {spec.backend} does not configure agents")


@rule("RUN031", gate="run")
def evaluated_on_what_is_trained_on(run: RunSubject) -> Iterator[Found]:
    """The evaluation has the tasks of the training.

    What: The evaluation tasks of a run differ from its training tasks: the environment's evaluation split (a field
    `split` of the taskset in v1, an `eval_dataset` in v0), or those that `eval` of the environment declares in
    registry.yaml, or settings of its own below `eval.environments`. Trainers that keep tasks from training pass.
    Why: An evaluation on tasks from training measures memory.
    Fix: Give the environment `eval: {split: test}`, or `eval: {args: {seed: 1}}` with arguments that select other
    tasks.
    """
    for used in run.evaluated_on:
        if used.on_other_tasks:
            continue
        fix = declare_eval(used.id)
        if run.trainer.evaluates == "own split":
            fix = f"{run.spec.backend} evaluates on the package's own eval_dataset (v0). Give it one, or remove eval."
        message = f"{used.id} is trained on and evaluated on with the same tasks"
        yield run.found(used.key, message, fix, environment=used.id)


@rule("RUN034", gate="run")
def result_is_not_kept(run: RunSubject) -> Iterator[Found]:
    """The run keeps no result.

    What: The trainer writes a checkpoint of the last step. prime-rl writes it only if `ckpt` is configured
        (trainer/rl/train.py@559b447). Compiled runs have it, and an override can remove it.
    Why: The run is paid, and nothing of it is left.
    Fix: Remove the override; docs/training.md shows what each trainer keeps, and where.
    """
    if run.settings.result == "nothing":
        yield run.found("overrides", "no checkpoint is written, and the result is lost when the run ends")


@rule("RUN035", gate="run", severity="warning")
def result_cannot_be_used_as_it_is(run: RunSubject) -> Iterator[Found]:
    """The result is deleted with the run, or no server loads it.

    What: A hosted run has a `volume`: of runs that ended, the platform deletes the checkpoints (prime 0.18.0,
        api/rl.py, restart_run). A run of prime-rl broadcasts its weights through the file system, which leaves those
        of the last step as vLLM loads them; NCCL and NIXL leave only the shards of a checkpoint
        (transports/weights/filesystem.py@559b447).
    Why: After the run there would be nothing to evaluate or serve.
    Fix: Declare `volume: {name: NAME}`, which keeps the outputs below runs/ID/ and is paid by its size; volumes are in
        closed beta. Or remove weight_broadcast from the overrides.
    """
    if run.settings.result == "cleaned up":
        fix = f"Declare `volume: {{name: {run.spec.name}, size: 500Gi}}`, or copy the checkpoint before the run ends."
        message = "without a volume, the platform deletes the checkpoints when the run ends, and the result is lost"
        yield run.found("backend", message, fix)
    elif run.settings.result == "shards":
        how = run.settings.broadcast or "nccl"
        message = f"weights are broadcast by {how}: the result is a sharded checkpoint, which vLLM does not load"
        fix = "Remove weight_broadcast from the overrides, or convert the checkpoint after the run."
        yield run.found("overrides.weight_broadcast", message, fix)
