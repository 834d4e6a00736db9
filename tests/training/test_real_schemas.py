"""Compiled configurations against the trainers' own schemas.

`nox -s learner` runs those whose packages are on the package index: TRL and tinker-cookbook. Each of the
others needs a checkout, named by a variable, and is skipped without it (docs/training.md shows how to make each):

    ENVOPS_PRIME_RL    a checkout of prime-rl whose .venv has packages/prime-rl-configs (Python 3.12)
    ENVOPS_RLLM        a checkout of rLLM whose .venv has hydra-core and verl (without its dependencies)
    ENVOPS_SKYRL       a checkout of SkyRL whose .venv has omegaconf and what its config module imports
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from envops.repository.registry import Registry
from envops.repository.repository import Repository
from envops.repository.run import run_spec
from envops.repository.workspace import Workspace
from envops.training.declared_runs import DeclaredRun, declared_runs
from envops.training.trainers import TRAINERS, compile_run
from envops.training.trainers.trainer import CompileRequest, environment_of
from envops.validation.venv import venv_for
from generated_runs import generated_run

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
COUNT = 150
ONLY_WARNED = ("RUN003",)
"""What prime-rl refuses and our rules only warn of: a model that a newer prime-rl may know."""


def given(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    return Path(value)


def python_with(group: str) -> Path:
    """The Python of a virtual environment of its own with the packages of a dependency group."""
    lock = ROOT / "tools" / f"requirements-{group}.lock"
    return venv_for(lock, Workspace(ROOT), threading.Event(), imported=False).python


@pytest.fixture(scope="module")
def repository() -> Repository:
    return Repository.load(ROOT)


def compiled(repository: Repository, backend: str, declared: Mapping[str, Any]) -> Mapping[str, str]:
    spec = run_spec("first", {**declared, "backend": backend}, {}, "registry.yaml")
    used = {source.id for source in spec.environments}
    environments = {name: environment_of(name, repository.registry, repository.packages) for name in used}
    return compile_run(CompileRequest(spec, environments)).files


def schema_errors(checkout: Path, files: Sequence[Path]) -> dict[str, str | None]:
    """The result of prime-rl's own schema for each file."""
    packages = [path for path in (ROOT / "environments").iterdir() if path.is_dir()]
    path = [checkout / "packages" / "prime-rl-configs" / "src", *packages]
    result = subprocess.run(
        [checkout / ".venv" / "bin" / "python", HERE / "prime_rl_schema.py", *files],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=True,
    )
    errors: dict[str, str | None] = json.loads(result.stdout.splitlines()[-1])
    return errors


def test_declared_runs_are_accepted_by_prime_rl(repository: Repository) -> None:
    checkout = given("ENVOPS_PRIME_RL")
    runs = declared_runs(repository.registry, repository.packages)
    files = [
        ROOT / name
        for run in runs
        if run.compiled and run.spec.backend in ("prime", "prime-rl") and run.spec.schema != "later"
        for name in run.compiled.files
        if name.endswith(".toml")
    ]
    assert [error for error in schema_errors(checkout, files).values() if error] == []


def generated(repository: Repository, count: int, *, sound: bool) -> Iterator[DeclaredRun]:
    """Generated declarations, compiled and judged."""
    environments = repository.registry.environments
    for seed in range(count):
        name, declared = f"run-{seed}", generated_run(seed, sound=sound)
        spec = run_spec(name, declared, {}, "registry.yaml")
        registry = Registry("acme", environments, runs={name: declared})
        yield from declared_runs(registry, repository.packages, [spec])


def test_generated_sound_runs_have_no_findings(repository: Repository) -> None:
    found = [finding for run in generated(repository, 40, sound=True) for finding in run.findings if finding.counts]
    assert found == []


@pytest.mark.parametrize("sound", [True, False])
def test_generated_runs_that_pass_rules_are_accepted_by_prime_rl(
    sound: bool, repository: Repository, tmp_path: Path
) -> None:
    checkout = given("ENVOPS_PRIME_RL")
    passing = []
    for run in generated(repository, COUNT, sound=sound):
        assert run.compiled is not None
        if not any(finding.counts or finding.rule in ONLY_WARNED for finding in run.findings):
            passing.append(tmp_path / f"{run.spec.name}.toml")
            passing[-1].write_text(next(iter(run.compiled.files.values())))
    assert len(passing) >= COUNT / 10
    assert {file: error for file, error in schema_errors(checkout, passing).items() if error} == {}


def old_runs() -> list[dict[str, Any]]:
    """Declarations for trainers of v0 environments, drawn widely."""
    keys = ("environments", "max_steps", "batch_size", "group_size", "learning_rate", "sampling", "eval")
    keys += ("checkpoints", "wandb", "max_concurrent", "difficulty_filter", "lora", "seq_len")
    found = []
    for seed in range(30):
        drawn = generated_run(seed, sound=True)
        declared = {key: drawn[key] for key in keys if key in drawn}
        source = dict(declared["environments"][0])
        source.pop("harness", None)
        source.pop("taskset", None)
        source.pop("name", None)
        declared["environments"] = [source]
        declared.get("eval", {}).pop("environments", None)
        found.append({"lora": {"rank": 16}, **declared, "model": "Qwen/Qwen3-8B"})
    return found


def check(python: Path, code: str, given_to: Sequence[str], folder: Path | None = None) -> None:
    """Run a few lines in a trainer's Python; they raise where it refuses."""
    done = subprocess.run([python, "-c", code, *given_to], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]


def arguments_of(script: str) -> list[str]:
    """The arguments of a compiled script, as its shell hands them over."""
    body = script.partition("arguments=(\n")[2].partition("\n)\n")[0]
    return [word for line in body.splitlines() for word in shlex.split(line, comments=True)]


def script_of(files: Mapping[str, str]) -> str:
    return next(text for name, text in files.items() if name.endswith(".sh"))


@pytest.mark.torch
def test_tinker_accepts_every_argument(repository: Repository) -> None:
    python = python_with("tinker")
    sets = [arguments_of(script_of(compiled(repository, "tinker", declared))) for declared in old_runs()]
    sets.append(arguments_of((ROOT / "configs" / "rl" / "wordle-tinker.sh").read_text()))
    code = (
        "import ast, sys, json, chz, importlib.util as u\n"
        "package = u.find_spec('tinker_cookbook').submodule_search_locations[0]\n"
        "source = open(package + '/recipes/verifiers_rl/train.py').read()\n"
        "tree = ast.parse(source)\n"
        "body = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == 'CLIConfig']\n"
        "from tinker_cookbook import cli_utils\n"
        "names = {'chz': chz, 'cli_utils': cli_utils, '__name__': 'recipe'}\n"
        "module = ast.Module(body=body, type_ignores=[])\n"
        "import types; m = types.ModuleType('recipe'); m.__dict__.update(names); sys.modules['recipe'] = m\n"
        "exec(compile(module, 'recipe', 'exec'), m.__dict__)\n"
        "from chz.blueprint import Blueprint\n"
        "for argv in json.loads(sys.argv[1]):\n"
        "    c = Blueprint(m.CLIConfig).make_from_argv(argv)\n"
        "    from tinker_cookbook import renderers, model_info\n"
        "    model_info.get_model_attributes(c.model_name)\n"
    )
    check(python, code, [json.dumps(sets)])


@pytest.mark.torch
def test_tinker_logs_the_metrics_that_are_read() -> None:
    """The cookbook's own functions emit the names; those of its loop and of an evaluation are read in its source."""
    code = (
        "import json, sys, tinker, torch\n"
        "from tinker_cookbook.completers import TokensWithLogprobs\n"
        "from tinker_cookbook.rl.metric_util import compute_trajectory_metrics\n"
        "from tinker_cookbook.rl.metrics import compute_kl_sample_train\n"
        "from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition\n"
        "said = TokensWithLogprobs(tokens=[1, 2], maybe_logprobs=[-0.5, -0.25])\n"
        "empty = tinker.ModelInput.empty()\n"
        "step = Transition(ob=empty, ac=said, reward=0.0, episode_done=True, metrics={})\n"
        "group = [Trajectory(transitions=[step], final_ob=empty)] * 2\n"
        "given = {'logprobs': torch.tensor([-0.5, -0.25]), 'mask': torch.ones(2)}\n"
        "inputs = {name: tinker.TensorData.from_torch(each) for name, each in given.items()}\n"
        "datum = tinker.Datum(model_input=empty, loss_fn_inputs=inputs)\n"
        "group = TrajectoryGroup(trajectories_G=group, final_rewards_G=[1.0, 1.0], metrics_G=[{}, {}])\n"
        "logged = compute_trajectory_metrics([group], [[]])\n"
        "logged |= compute_kl_sample_train([datum], [torch.tensor([-0.75, -0.25])])\n"
        "assert logged['env/all/reward/total'] == logged['env/all/by_group/frac_all_good'] == 1.0\n"
        "missing = set(json.loads(sys.argv[1])) - logged.keys()\n"
        "assert not missing, missing\n"
    )
    trainer = TRAINERS["tinker"]
    assert trainer.zero_variance is not None
    names = [name for ours, each in trainer.metrics.items() if ours not in ("learning_rate", "eval") for name in each]
    check(python_with("tinker"), code, [json.dumps([*names, *trainer.zero_variance])])


@pytest.mark.parametrize(("backend", "config"), [("rllm-verl", "agent_ppo_trainer"), ("rllm-tinker", "unified")])
def test_rllm_composes_every_override(backend: str, config: str, repository: Repository) -> None:
    checkout = given("ENVOPS_RLLM")
    sets = [arguments_of(script_of(compiled(repository, backend, declared))) for declared in old_runs()]
    name = "wordle-verl.sh" if backend == "rllm-verl" else "wordle-rllm-tinker.sh"
    sets.append(arguments_of((ROOT / "configs" / "rl" / name).read_text()))
    code = (
        "import json, sys\n"
        "from hydra import compose, initialize_config_dir\n"
        "from omegaconf import OmegaConf\n"
        "from importlib.util import find_spec\n"
        "OmegaConf.register_new_resolver('mul', lambda a, b: a * b)\n"
        "verl = find_spec('verl').submodule_search_locations[0] + '/trainer/config'\n"
        "found = [f'hydra.searchpath=[file://{verl}]']\n"
        f"with initialize_config_dir({str(checkout / 'rllm' / 'trainer' / 'config')!r}, version_base=None):\n"
        "    for overrides in json.loads(sys.argv[1]):\n"
        f"        made = compose({config!r}, overrides=overrides + found)\n"
        "        assert made.rllm.workflow.use_workflow is True\n"
    )
    check(checkout / ".venv" / "bin" / "python", code, [json.dumps(sets)])


SAVES = """
import ast, asyncio, json, sys, types
def conditions(name, attribute):
    function = next(node for node in ast.walk(tree) if getattr(node, "name", "") == name)
    found = [node.test for node in ast.walk(function) if isinstance(node, ast.If)]
    return [compile(ast.Expression(test), name, "eval") for test in found if attribute in ast.unparse(test)]
def config(arguments, prefix):
    given = dict(each.lstrip("+").split("=", 1) for each in arguments)
    return types.SimpleNamespace(**{key[len(prefix):]: int(value) for key, value in given.items()
                                    if key.startswith(prefix) and value.lstrip("-").isdigit()})
tree = ast.parse(open(sys.argv[1]).read())
"""
"""Reads the conditions of a trainer's own loop, to run them with the compiled settings."""


def last_saved(tmp_path: Path, module: Path, code: str, sets: Sequence[Sequence[str]]) -> Any:
    """The result of a trainer's own conditions for each set of arguments: its last step, and the last one saved."""
    file = tmp_path / "out.json"
    written = f"{SAVES}{code}\njson.dump([steps(each) for each in json.loads(sys.argv[2])], open(sys.argv[3], 'w'))"
    check(Path(sys.executable), written, [str(module), json.dumps(sets), str(file)])
    return json.loads(file.read_text())


def kept_runs(repository: Repository, backend: str) -> tuple[list[int], list[list[str]]]:
    """Runs with and without an interval of checkpoints: their steps, and their compiled arguments."""
    declared = [
        {**each, "max_steps": steps, "checkpoints": {} if interval is None else {"interval": interval}}
        for each in old_runs()[:1]
        for steps in (1, 2, 7, 100)
        for interval in (None, 1, 3, 30, 50, 400)
    ]
    sets = [arguments_of(script_of(compiled(repository, backend, each))) for each in declared]
    return [each["max_steps"] for each in declared], sets


def test_rllm_verl_trains_and_saves_every_declared_step(repository: Repository, tmp_path: Path) -> None:
    steps, sets = kept_runs(repository, "rllm-verl")
    code = """
[saves], [ends] = conditions("fit_agent", "save_freq"), conditions("fit_agent", "total_training_steps")
def steps(arguments):
    trainer = config(arguments, "trainer.")
    self = types.SimpleNamespace(config=types.SimpleNamespace(trainer=trainer), global_steps=1)
    self.total_training_steps = trainer.total_training_steps
    saved = 0
    while True:
        saved = self.global_steps if eval(saves) else saved
        self.global_steps += 1
        if eval(ends):
            return self.global_steps - 1, saved
"""
    module = given("ENVOPS_RLLM") / "rllm" / "trainer" / "verl" / "agent_workflow_trainer.py"
    assert last_saved(tmp_path, module, code, sets) == [[each, each] for each in steps]


def test_rllm_tinker_saves_the_last_step(repository: Repository, tmp_path: Path) -> None:
    steps, sets = kept_runs(repository, "rllm-tinker")
    code = """
[ends] = conditions("on_train_end", "save_freq")
assigned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)]
[during] = [value for value in assigned if "save_freq > 0" in ast.unparse(value)]
during = compile(ast.Expression(during), "on_policy_updated", "eval")
def steps(arguments):
    trainer = config(arguments, "rllm.trainer.")
    self = types.SimpleNamespace(full_config=types.SimpleNamespace(rllm=types.SimpleNamespace(trainer=trainer)))
    save_freq, saved = trainer.save_freq, 0
    for global_step in range(1, trainer.total_batches + 1):
        saved = global_step if eval(during) else saved
    trainer_state = types.SimpleNamespace(global_step=global_step)
    return global_step, global_step if eval(ends) else saved
"""
    module = given("ENVOPS_RLLM") / "rllm" / "trainer" / "tinker" / "tinker_backend.py"
    assert last_saved(tmp_path, module, code, sets) == [[each, each] for each in steps]


def test_skyrl_saves_the_last_step(repository: Repository, tmp_path: Path) -> None:
    steps, sets = kept_runs(repository, "skyrl")
    code = """
at_end = next(each for each in conditions("train", "ckpt_interval") if "will_save_ckpts" in each.co_names)
def steps(arguments):
    self = types.SimpleNamespace(cfg=types.SimpleNamespace(trainer=config(arguments, "trainer.")))
    will_save_ckpts, last = False, self.cfg.trainer.max_training_steps
    return last, last if eval(at_end) else 0
"""
    module = given("ENVOPS_SKYRL") / "skyrl" / "train" / "trainer.py"
    assert last_saved(tmp_path, module, code, sets) == [[each, each] for each in steps]


def test_skyrl_accepts_every_override(repository: Repository) -> None:
    checkout = given("ENVOPS_SKYRL")
    sets = [arguments_of(script_of(compiled(repository, "skyrl", declared))) for declared in old_runs()]
    sets.append(arguments_of((ROOT / "configs" / "rl" / "wordle-skyrl.sh").read_text()))
    code = (
        "import ast, json, math, sys, types\n"
        "part = types.ModuleType('one function of a package that needs a GPU')\n"
        "part._uses_lora_weight_sync = lambda config: False\n"
        "sys.modules['skyrl.backends.skyrl_train.inference_servers.utils'] = part\n"
        "from skyrl.train.config import SkyRLTrainConfig\n"
        "tree = ast.parse(open('skyrl/train/utils/utils.py').read())\n"
        "body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == 'validate_batch_sizes']\n"
        "exec(compile(ast.Module(body=body, type_ignores=[]), 'utils', 'exec'))\n"
        "logger = types.SimpleNamespace(warning=print, info=print)\n"
        "for overrides in json.loads(sys.argv[1]):\n"
        "    made = SkyRLTrainConfig.from_cli_overrides(overrides)\n"
        "    assert made.trainer.max_training_steps > 0\n"
        "    validate_batch_sizes(made)\n"
    )
    check(checkout / ".venv" / "bin" / "python", code, [json.dumps(sets)], checkout)


@pytest.mark.torch
def test_trl_accepts_every_setting(repository: Repository, tmp_path: Path) -> None:
    files = [str(ROOT / "configs" / "rl" / "reverse-text-here.toml")]
    for number, declared in enumerate(old_runs()):
        file = tmp_path / f"{number}.toml"
        file.write_text(next(iter(compiled(repository, "trl", declared).values())))
        files.append(str(file))
    code = (
        "import sys, tomllib\n"
        "from trl import GRPOConfig\n"
        "for name in sys.argv[1:]:\n"
        "    given = tomllib.load(open(name, 'rb'))\n"
        "    made = GRPOConfig(**given['grpo'], use_cpu=True, bf16=False)\n"
        "    grpo = given['grpo']\n"
        "    asked = grpo['per_device_train_batch_size'] * grpo['gradient_accumulation_steps']\n"
        "    assert made.generation_batch_size == asked\n"
    )
    check(Path(sys.executable), code, files)
