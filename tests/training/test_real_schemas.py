"""Compiled configurations against the trainers' own schemas.

`nox -s learner` runs those whose packages our locks have: TRL and tinker-cookbook. `nox -s trainers` checks
with prime-rl and with the newest packages. Each of the others needs a checkout, named by a variable, and is skipped
without it (docs/training.md shows how to make each):

    ENVWRIGHT_RLLM        a checkout of rLLM whose .venv has hydra-core and verl (without its dependencies)
    ENVWRIGHT_SKYRL       a checkout of SkyRL whose .venv has omegaconf and what its config module imports
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from envwright.builds.venv import venv_for
from envwright.declarations.run import run_spec
from envwright.packages.repository import Repository
from envwright.system.workspace import Workspace
from envwright.training.declared_runs import declared_runs
from envwright.training.trainers import compile_run
from envwright.training.trainers.trainer import CompileRequest, environment_of
from generated_runs import generated_run

sys.path.append(str(Path(__file__).parent / "upstream"))

from checked_runs import arguments_of, drawn_specs

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


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


def test_generated_sound_runs_have_no_findings(repository: Repository) -> None:
    runs = declared_runs(repository.registry, repository.packages, list(drawn_specs(40, sound=True)))
    assert [finding for run in runs for finding in run.findings if finding.counts] == []


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


def refused(python: Path, script: str, files: Sequence[Path]) -> dict[str, str]:
    """What a trainer's own code refuses: file → error."""
    command = [python, HERE / "upstream" / script, "check", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {file: error for file, error in json.loads(done.stdout.splitlines()[-1]).items() if error}


def script_of(files: Mapping[str, str]) -> str:
    return next(text for name, text in files.items() if name.endswith(".sh"))


@pytest.mark.torch
def test_tinker_accepts_every_argument(repository: Repository, tmp_path: Path) -> None:
    python = python_with("tinker")
    sets = [arguments_of(script_of(compiled(repository, "tinker", declared))) for declared in old_runs()]
    sets.append(arguments_of((ROOT / "configs" / "rl" / "wordle-tinker.sh").read_text()))
    files = [tmp_path / f"{number}.json" for number in range(len(sets))]
    for file, given_to in zip(files, sets, strict=True):
        file.write_text(json.dumps(given_to))
    assert refused(python, "in_tinker.py", files) == {}


@pytest.mark.parametrize(("backend", "config"), [("rllm-verl", "agent_ppo_trainer"), ("rllm-tinker", "unified")])
def test_rllm_composes_every_override(backend: str, config: str, repository: Repository) -> None:
    checkout = given("ENVWRIGHT_RLLM")
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
    module = given("ENVWRIGHT_RLLM") / "rllm" / "trainer" / "verl" / "agent_workflow_trainer.py"
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
    module = given("ENVWRIGHT_RLLM") / "rllm" / "trainer" / "tinker" / "tinker_backend.py"
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
    module = given("ENVWRIGHT_SKYRL") / "skyrl" / "train" / "trainer.py"
    assert last_saved(tmp_path, module, code, sets) == [[each, each] for each in steps]


def test_skyrl_accepts_every_override(repository: Repository) -> None:
    checkout = given("ENVWRIGHT_SKYRL")
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
    assert refused(Path(sys.executable), "in_trl.py", [Path(file) for file in files]) == {}
