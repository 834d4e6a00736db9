"""Rules of training runs: can this trainer run this at all?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envops.repository.problem import nearest
from envops.rules.engine import Found, all_rules, rule
from envops.rules.runs.known_models import RENDERER_OF_MODEL, RENDERERS, TINKER_RENDERERS, known_models
from envops.rules.runs.prime_rl_keys import MOVED, REMOVED, VLLM_ARGUMENTS
from envops.rules.runs.subject import RunSubject
from envops.rules.runs.trainer_settings import PRIME_RL, at, source_name, sources
from envops.rules.runs.trainers import admits, alternatives


@rule("RUN001", gate="run")
def trainer_cannot_run_the_environment(run: RunSubject) -> Iterator[Found]:
    """The trainer cannot run the environment.

    What: The trainer runs the environment's generation of verifiers, and the package admits a release of
        verifiers that the trainer's integration works with. Source: the matrix in `judge/trainers.py`, measured
        by making each integration's own calls on every release.
    Why: Most integrations work with one old release; the run would end at its first import.
    Fix: Choose another backend; `nox -s migrate -- NAME` moves a v0 environment to v1.
    """
    for used in run.trained_on:
        reason = admits(run.trainer, used.generation, used.requires)
        if reason:
            others = alternatives(used.generation, used.requires)
            fix = f"Use one of: {', '.join(others)}." if others else "No trainer runs it as it is."
            if used.generation == "v0":
                migrated = [name for name in alternatives("v1", ("verifiers>=0.4",)) if name not in others]
                fix += f" After `nox -s migrate -- {used.id}` (v1) also: {', '.join(migrated)}."
            evidence = {"environment": used.id, "source": run.trainer.source, "alternatives": list(others)}
            yield run.found(used.key, f"{used.id}: {reason}", fix, **evidence)


@rule("RUN002", gate="run", severity="warning")
def trainer_is_retired(run: RunSubject) -> Iterator[Found]:
    """The trainer takes no new runs.

    What: The backend is not one that its owner has shut down.
    Why: The configuration is compiled, and nobody will run it. `envops train` does not submit it.
    Fix: Use `backend: prime` (hosted) or `prime-rl` (self-managed).
    """
    if run.trainer.retired:
        yield run.found("backend", f"{run.spec.backend} is retired: {run.trainer.retired}")


@rule("RUN003", gate="run")
def model_or_renderer_is_unknown(run: RunSubject) -> Iterator[Found]:
    """The trainer does not know the model, or the renderer.

    What: prime-rl resolves `renderer = "auto"` from a map of 67 models (renderers 0.1.12), tinker-cookbook refuses
        models that are not in its model_info (0.5.8). Both are compared by exact name.
    Why: The run would end when it starts, on machines that are paid for.
    Fix: Correct the name; for a fine-tuned model with prime-rl, name the renderer of its base.
    """
    spec = run.spec
    model = str(at(run.native, "model.name") or spec.model) if spec.backend in PRIME_RL else spec.model
    renderer = at(run.native, "orchestrator.renderer.name") if spec.backend in PRIME_RL else None
    if spec.backend in PRIME_RL:
        if renderer is not None and renderer not in RENDERERS:
            near = nearest(str(renderer), RENDERERS)
            yield run.found("renderer", f"there is no renderer {renderer}", _meant(near), nearest=near)
        elif renderer in (None, "auto") and model not in RENDERER_OF_MODEL:
            near = nearest(model, RENDERER_OF_MODEL)
            fix = f"{_meant(near)} Or name the chat renderer: `renderer: qwen3`.".strip()
            yield run.found("model", f"prime-rl knows no renderer for the model {model}", fix, nearest=near)
    elif spec.backend in ("tinker", "rllm-tinker") and model.split(":")[0] not in TINKER_RENDERERS:
        near = nearest(model, TINKER_RENDERERS)
        yield run.found("model", f"Tinker does not know the model {model}", _meant(near) or None, nearest=near)


def _meant(near: str) -> str:
    return f"Did you mean {near}?" if near else ""


@rule("RUN004", gate="run", severity="warning")
def model_looks_misspelt(run: RunSubject) -> Iterator[Found]:
    """The model's name is nearly that of a known one.

    What: The trainer takes any name; this one is known to no trainer and differs from a known one in few letters.
        Folders are passed over.
    Why: A name that does not exist fails only when the weights are fetched.
    Fix: Correct it, or ignore this rule where the model is yours.
    """
    model, known = run.spec.model, known_models()
    if run.spec.backend in (*PRIME_RL, "tinker", "rllm-tinker") or model in known or model.startswith((".", "/")):
        return
    near = nearest(model, known)
    if near and sum(one != other for one, other in zip(model, near, strict=False)) + abs(len(model) - len(near)) <= 3:
        yield run.found("model", f"{model} is known to no trainer", _meant(near), nearest=near)


@rule("RUN005", gate="run")
def overrides_use_another_schema(run: RunSubject) -> Iterator[Found]:
    """The configuration has a key that the named schema of prime-rl does not.

    What: Keys that moved between prime-rl's August schema (559b447) and the later one, and keys that were removed.
        With `schema: portable` neither spelling is allowed. vLLM's arguments, which the schema passes through
        unchecked, are compared with known ones.
    Why: Unknown keys are errors in both schemas, and the hosted service validates only on the cluster.
    Fix: Use the spelling of the schema that is named, or name the schema.
    """
    if run.spec.backend not in PRIME_RL:
        return
    for removed, instead in REMOVED.items():
        if at(run.native, removed) is not None:
            yield run.found("overrides", f"{removed} was removed from prime-rl", f"Use {instead}.", path=removed)
    for august, later in MOVED.items():
        for path, schema in ((august, "august"), (later, "later")):
            if schema != run.spec.schema and any(at(values, own) is not None for values, own in _holders(run, path)):
                other = later if path == august else august
                fix = f"Write {other}." if run.spec.schema != "portable" else f"Set `schema: {schema}` for this run."
                message = f"{path} is valid in the {schema} schema only, this run names {run.spec.schema}"
                yield run.found("overrides", message, fix, path=path)
    yield from _misspelt_vllm(run)


def _holders(run: RunSubject, path: str) -> list[tuple[Mapping[str, Any], str]]:
    if path.startswith("source."):
        return [(source, path.removeprefix("source.")) for source in sources(run.native)]
    return [(run.native, path)]


def _misspelt_vllm(run: RunSubject) -> Iterator[Found]:
    given = at(run.native, "inference.vllm")
    for key in given if isinstance(given, Mapping) else ():
        name = key.replace("-", "_")
        near = "" if name in VLLM_ARGUMENTS else nearest(name, VLLM_ARGUMENTS)
        if near:
            message = f"inference.vllm.{key} is passed to vLLM unchecked, and looks like {near}"
            yield run.found("overrides.inference.vllm", message, f"Write {near}.", nearest=near)


@rule("RUN006", gate="run")
def run_cannot_be_compiled(run: RunSubject) -> Iterator[Found]:
    """The run has no form in the trainer's configuration.

    What: The declaration is compiled; what the trainer has no word for stops it.
    Why: Nothing can be submitted.
    Fix: The message names what to change.
    """
    if run.broken:
        yield run.found("", run.broken)


@rule("RUN007", gate="run", severity="warning")
def trained_with_another_release(run: RunSubject) -> Iterator[Found]:
    """The environment was proven with another release of verifiers than the trainer runs.

    What: The release in requirements.lock is one that the trainer's integration works with.
    Why: Rewards were proven with one release and will be earned with another.
    Fix: Bound verifiers in pyproject.toml to the trainer's release and lock again, so that the gates use it too.
    """
    for used in run.trained_on:
        if used.pinned is None or run.trainer.any_release or not run.trainer.releases or used.generation == "v1":
            continue
        if used.pinned not in run.trainer.releases and not admits(run.trainer, used.generation, used.requires):
            message = (
                f"{used.id} was proven with verifiers {used.pinned}, {run.spec.backend} runs {run.trainer.released}"
            )
            yield run.found(used.key, message, environment=used.id)


@rule("RUN008", gate="run")
def trainer_lacks_what_is_asked(run: RunSubject) -> Iterator[Found]:
    """The trainer has no such algorithm, or trains adapters only.

    What: `algorithm` is one that the trainer has, and trainers that only train LoRA adapters are given `lora`.
    Why: The run would train something else than was declared.
    Fix: Choose an algorithm of the trainer, or add `lora: {rank: 16}`.
    """
    spec = run.spec
    if spec.algorithm not in run.trainer.algorithms:
        fix = f"{spec.backend} has: {', '.join(run.trainer.algorithms)}."
        yield run.found("algorithm", f"{spec.backend} has no algorithm {spec.algorithm}", fix)
    if run.trainer.lora == "only" and spec.lora is None:
        fix = "Add `lora: {rank: 16}`."
        yield run.found("backend", f"{spec.backend} trains LoRA adapters only, and lora is not declared", fix)


@rule("RUN009", gate="run")
def nothing_would_submit_it(run: RunSubject) -> Iterator[Found]:
    """The run is to start after a release, and nothing can start it.

    What: `submit: on-release` is for hosted training; on machines of one's own somebody has to start the command.
    Why: The run would never start, without a word.
    Fix: Set `submit: manual`, or `backend: prime`.
    """
    if run.spec.submit == "on-release" and (not run.trainer.hosted or run.trainer.retired):
        yield run.found("submit", f"submit is on-release, and nothing submits {run.spec.backend} runs")


@rule("RUN010", gate="run")
def hosted_service_refuses(run: RunSubject) -> Iterator[Found]:
    """The hosted service refuses a setting.

    What: `clean`, a `[k8s]` table, disaggregated inference, no GPU for inference, a batch script of SLURM on one
        node. Source: prime 0.18.0, its schema worker, run against a loopback server.
    Why: The submission fails after the release has been published.
    Fix: Remove the setting; it is for machines of one's own.
    """
    if run.spec.backend != "prime":
        return
    native = run.native
    if native.get("clean") is True:
        yield run.found("overrides.clean", "the hosted service refuses clean = true")
    if "k8s" in native:
        yield run.found("overrides.k8s", "the hosted service refuses a [k8s] table")
    if at(native, "inference.deployment.type") == "disaggregated":
        yield run.found("overrides.inference.deployment", "the hosted service refuses disaggregated inference")
    if run.knobs.inference_gpus is not None and run.knobs.inference_gpus < 1:
        yield run.found("gpus.inference", "the hosted service needs GPUs for inference")


@rule("RUN011", gate="run", severity="advice")
def compatibility_is_unknown(run: RunSubject) -> Iterator[Found]:
    """Nobody knows which generation an environment of the Hub is written for.

    What: An environment that is used from the Hub says its `generation`, where the trainer runs only one.
    Why: Its code is not here, so nothing else can tell whether the trainer runs it.
    Fix: Add `generation: v0` or `v1` beside `hub`; `prime env info` shows what it requires.
    """
    for used in run.trained_on:
        if used.external and used.generation is None and len(run.trainer.generations) == 1:
            only = run.trainer.generations[0]
            message = f"{run.spec.backend} runs {only} environments, and nothing says what {used.id} is"
            yield run.found(used.key, message, environment=used.id)


@rule("RUN012", gate="run")
def names_of_sources_clash(run: RunSubject) -> Iterator[Found]:
    """Two environments of a run have one name in metrics.

    What: Names are unique among what is trained on and among what is evaluated on, and none is `agg`. Source:
        prime-rl 559b447, configs/orchestrator.py.
    Why: prime-rl refuses it, and the hosted service says so only on the cluster.
    Fix: Give each its `name`.
    """
    if run.spec.backend not in PRIME_RL:
        return
    for kind in ("train", "eval"):
        names = [source_name(source) for source in sources(run.native, kind)]
        for name in dict.fromkeys(name for name in names if names.count(name) > 1 or name == "agg"):
            why = "is reserved" if name == "agg" else f"stands {names.count(name)} times"
            yield run.found("environments", f"the name {name} {why} in orchestrator.{kind}.source", name=name)


@rule("RUN013", gate="run")
def override_is_of_another_kind(run: RunSubject) -> Iterator[Found]:
    """An override is of another kind than what it replaces.

    What: A number replaces a number, a table a table, a list a list. Whole and broken numbers are one kind.
    Why: The trainer refuses it, or reads something that was not meant; the hosted service only on the cluster.
    Fix: Write the value as the compiled file in configs/rl has it; a single key of a table is overridden by its path.
    """
    for path, said in run.misfits.items():
        yield run.found(f"overrides.{path}", f"override of {path}: {said}", path=path)


@rule("RUN090", gate="run", severity="warning")
def ignored_rule_does_not_exist(run: RunSubject) -> Iterator[Found]:
    """A rule that is ignored does not exist.

    What: Every id below the run's `ignore` is that of a rule of runs.
    Why: A reason for something that never happens misleads its reader.
    Fix: Correct the id, or remove the line.
    """
    known = [each.id for each in all_rules().values() if each.gate == "run"]
    for ignored in run.spec.ignore:
        if ignored not in known:
            near = nearest(ignored, known)
            yield run.found(f"ignore.{ignored}", f"there is no rule {ignored} of runs", _meant(near) or None)
