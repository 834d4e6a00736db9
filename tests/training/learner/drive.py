"""Run by a Python with torch and TRL: all data about one generation batch of an environment, as JSON.

    python drive.py ENVIRONMENT sampled|scripted MODEL [lora]

`sampled` uses replies of the random model. `scripted` replaces them, every other one by the right reply, with the log
probabilities that the model gives them, so that rewards differ.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import torch
from envwright.packages.repository import Repository
from envwright.system.workspace import Workspace
from envwright_learner.environment import RolloutLimits, TrainingEnvironment, opened_for_training
from envwright_learner.serving import SamplingRequest
from envwright_learner.settings import LearnerSettings, RolloutSettings
from envwright_learner.training import Learner

ROOT = Path(__file__).parents[3]
SAID_BY = re.compile(r"<\|im_start\|>(\w+)\n(.*?)(?=<\|im_start\|>|$)", re.DOTALL)


def turns_of(heard: str) -> list[tuple[str, str]]:
    """Role and text of each message of a conversation as the model receives it."""
    return [(role, text.strip().removesuffix("<|im_end|>")) for role, text in SAID_BY.findall(heard)]


def reversed_text(heard: str, _answers: Mapping[str, str]) -> str:
    text = re.findall(r"<text>(.*?)</text>", heard)[-1]
    return f"<reversed_text>{text[::-1]}</reversed_text>"


def sorted_names(heard: str, _answers: Mapping[str, str]) -> str:
    texts = [text for role, text in turns_of(heard) if role == "user"]
    key = 0 if "by first name" in texts[0] else 1
    people = [line for text in texts for line in text.splitlines() if re.fullmatch(r"\S+ \S+", line)]
    return "<names>\n" + "\n".join(sorted(people, key=lambda person: person.split()[key])) + "\n</names>"


def middle_guess(heard: str, _answers: Mapping[str, str]) -> str:
    low, high = map(int, re.findall(r"greater than (\d+) and less than (\d+)", heard)[0])
    guess = 0
    for role, text in turns_of(heard):
        if role == "assistant":
            guess = int((re.findall(r"<guess>(\d+)", text) or [0])[0])
        elif guess and "higher" in text:
            low = guess
        elif guess and "lower" in text:
            high = guess
    return f"<guess>{(low + high) // 2}</guess>"


def looked_up(heard: str, _answers: Mapping[str, str]) -> str:
    company = re.findall(r"You keep the books of (.*?)\. ", heard)[0]
    if "<|im_start|>tool" in heard:
        return "<answer>1</answer>"
    call = {"name": "ledger_list_accounts", "arguments": {"company": company}}
    return f"I look.<tool_call>\n{json.dumps(call)}\n</tool_call>"


def dated(heard: str, answers: Mapping[str, str]) -> str:
    question = next(question for question in answers if question in heard)
    return f"<think>\ncounting\n</think>\n<answer>\n{answers[question]}\n</answer>"


SCRIPTS: Mapping[str, Callable[[str, Mapping[str, str]], str]] = {
    "reverse-text": reversed_text,
    "alphabet-sort": sorted_names,
    "number-guess": middle_guess,
    "ledger-lookup": looked_up,
    "date-arithmetic": dated,
}
WRONG = "I cannot say."


@contextmanager
def opened(name: str) -> Iterator[TrainingEnvironment]:
    repository = Repository.load(ROOT, [name])
    entry, package = repository.registry.environments[name], repository.packages[name]
    stop = threading.Event()
    with opened_for_training(
        entry, package, Workspace(ROOT), {}, stop, most_tasks=8, limits=RolloutLimits(8, 60.0)
    ) as environment:
        yield environment


def settings_of(name: str, model: str, folder: Path, *, lora: bool) -> LearnerSettings:
    grpo = {
        "output_dir": str(folder),
        "max_steps": 2,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "num_generations": 4,
        "max_completion_length": 24,
        "learning_rate": 1e-2,
        "temperature": 0.8,
        "bf16": False,  # on a GPU too, so that two ways to the same number can be compared
        "report_to": "none",
    }
    adapter = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"} if lora else None
    return LearnerSettings(model, RolloutSettings(name, seconds=60.0, seq_len=2000), grpo, adapter)


def scripted_sampler(learner: Learner, name: str) -> Any:
    """The replies of the script with the model's own log probabilities for them."""
    answers = {str(task.prompt[-1]["content"]): str(task.answer) for task in learner.environment.tasks}
    numbers = count()
    loaded = learner.loaded
    tokenizer = loaded.tokenizer

    def sample(requests: Sequence[SamplingRequest]) -> list[tuple[list[int], list[float]]]:
        found = []
        for heard in (request.heard for request in requests):
            text = tokenizer.decode(list(heard))
            right = "assistant" in text.removesuffix("<|im_start|>assistant\n") or next(numbers) % 2 == 0
            tokens = tokenizer(SCRIPTS[name](text, answers) if right else WRONG)["input_ids"] + [loaded.ends[0]]
            with torch.no_grad():
                ids = torch.tensor([[*heard, *tokens]], device=learner._trainer.model.device)
                logits = learner._trainer.model(input_ids=ids).logits[0, len(heard) - 1 : -1]
            values = (logits.float() / learner.settings.temperature).log_softmax(-1)
            found.append((tokens, values.gather(-1, ids[0, len(heard) :, None])[:, 0].tolist()))
        return found

    return sample


def looked_at(learner: Learner) -> dict[str, Any]:
    """The first generation batch: what TRL makes of it, and where its gradient goes."""
    trainer = learner._trainer
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = learner.settings.grpo["gradient_accumulation_steps"]
    batch = next(iter(trainer.get_train_dataloader()))
    inputs = trainer._prepare_inputs(batch)
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    width = inputs["completion_ids"].shape[1]
    with torch.no_grad():
        scored, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width)
    spoken = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
    kept: list[Any] = []
    base = trainer.model.get_base_model() if hasattr(trainer.model, "get_base_model") else trainer.model

    def keep(_module: Any, _inputs: Any, out: Any) -> None:
        out.last_hidden_state.retain_grad()
        kept.append(out)

    hook = base.model.register_forward_hook(keep)
    inputs["advantages"] = torch.ones_like(inputs["advantages"])  # every row teaches, whatever it earned
    trainer.compute_loss(trainer.model, inputs).backward()
    hook.remove()
    reached = kept[-1].last_hidden_state.grad[:, -width - 1 : -1].abs().sum(-1)  # a position predicts the next token
    before = kept[-1].last_hidden_state.grad[:, : -width - 1].abs().sum()
    decode = learner.loaded.tokenizer.decode
    rows = [
        {
            "task": played.task,
            "reward": played.reward,
            "functions": dict(played.functions),
            "failure": played.failure,
            "prompt": decode(list(played.trajectory.prompt)),
            "parts": parts(played.trajectory, decode),
        }
        for played in learner._rollouts.latest
        if played.trajectory is not None
    ]
    return {
        "rows": rows,
        "rollouts": len(learner._rollouts.latest),
        "scored_differently": float((scored - inputs["sampling_per_token_logps"])[spoken].abs().max()),
        "gradient_where_spoken": float(reached[spoken].min()),
        "gradient_elsewhere": float(reached[~spoken].sum() + before),
        "trainable": sum(weight.numel() for weight in trainer.model.parameters() if weight.requires_grad),
        "weights": sum(weight.numel() for weight in trainer.model.parameters()),
    }


def parts(trajectory: Any, decode: Any) -> list[tuple[int, str]]:
    """The completion in stretches of one speaker each: 1 is the policy's, 0 the environment's."""
    found: list[tuple[int, list[int]]] = []
    for token, mine in zip(trajectory.completion, trajectory.mask, strict=True):
        if not found or found[-1][0] != mine:
            found.append((mine, []))
        found[-1][1].append(token)
    return [(mine, decode(tokens)) for mine, tokens in found]


def main(name: str, manner: str, model: str, folder: str, *rest: str) -> None:
    settings = settings_of(name, model, Path(folder), lora="lora" in rest)
    learner = Learner(settings, ROOT, threading.Event(), lambda text: print(text, file=sys.stderr))
    assert learner.prepare() is None
    with opened(name) as environment:
        learner.environment = environment
        sample = learner.sampler() if manner == "sampled" else scripted_sampler(learner, name)
        with learner.served(sample):
            learner._trainer = learner.trainer()
            print(json.dumps(looked_at(learner)))


if __name__ == "__main__":
    main(*sys.argv[1:])
