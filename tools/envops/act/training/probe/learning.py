"""GRPO by TRL over real rollouts of an environment: TRL asks for rollouts, the environment's worker makes them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, PrinterCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer

from envops.act.training.probe.ground import Ground, Played
from envops.act.training.probe.policy import TinyPolicy, sampled
from envops.act.training.probe.speaker import Speaker
from envops.act.training.probe.vocabulary import END, PAD, START, UNKNOWN, Vocabulary


@dataclass(frozen=True)
class Recipe:
    """How a probe trains. Measured on two cores: a step is dominated by sampling."""

    batch_size: int = 128
    """Rollouts per step."""
    group_size: int = 16
    learning_rate: float = 2e-3
    most_tokens: int = 24
    seed: int = 0
    constant: float | None = None
    """Pay this for every rollout instead of the environment's reward: nothing can be learned then."""


@dataclass(frozen=True)
class Step:
    """One finished step."""

    number: int
    reward: float
    """Mean over the rollouts that have one, by the environment's own rewards."""
    dead_groups: float
    """Share of groups in which all rewards are equal: nothing to learn from."""
    failed: int
    gradient: float
    seconds: float
    """Since training began."""


@dataclass
class Learning:
    """One training under way."""

    ground: Ground
    vocabulary: Vocabulary
    policy: TinyPolicy
    recipe: Recipe
    folder: Path
    seen: Callable[[Step], None]
    steps: list[Step] = field(default_factory=list)
    _speaker: Speaker = field(init=False, repr=False)
    _of_step: Sequence[Sequence[Played]] = field(init=False, repr=False)
    """The groups of the step that TRL is at."""

    def run(self, tasks: Sequence[int], most_steps: int, most_seconds: float) -> None:
        """Train until the steps or the seconds are used up; goes on after the last step that the folder holds."""
        recipe = self.recipe
        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()
        warnings.filterwarnings("ignore", category=FutureWarning)  # names that TRL still uses
        rows = [{"prompt": str(index)} for index in tasks]
        settings = GRPOConfig(
            output_dir=str(self.folder),
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="steps",
            save_steps=1,  # it is small: whatever ends the run, no finished step is lost
            save_total_limit=1,
            logging_steps=1,
            disable_tqdm=True,
            max_steps=most_steps,
            per_device_train_batch_size=recipe.batch_size,
            num_generations=recipe.group_size,
            max_completion_length=recipe.most_tokens,
            learning_rate=recipe.learning_rate,
            lr_scheduler_type="constant",
            beta=0.0,
            seed=recipe.seed,
            dataloader_pin_memory=False,
            gradient_checkpointing=False,
        )
        with self.speaker() as speaker:
            self._speaker = speaker
            trainer = GRPOTrainer(
                model=self.policy,
                reward_funcs=_environment_reward,
                args=settings,
                train_dataset=Dataset.from_list(rows),
                processing_class=_tokenizer(self.vocabulary),
                callbacks=[_Watcher(self, most_seconds)],
                rollout_func=self._rollouts,
            )
            trainer.remove_callback(PrinterCallback)
            last = get_last_checkpoint(str(self.folder)) if self.folder.is_dir() else None
            trainer.train(resume_from_checkpoint=last)

    def evaluated(self, tasks: Sequence[int], rollouts: int) -> list[list[float]]:
        """Rewards of the policy as it is now, by task; rollouts without a reward are left out."""
        with self.speaker() as speaker:
            groups = self.ground.play(tasks, rollouts, speaker.base_url, speaker.spoken)
        return [[each.reward for each in group if each.reward is not None] for group in groups]

    def speaker(self) -> Speaker:
        """The policy as an endpoint."""

        def sample(conversations: Sequence[Sequence[int]]) -> list[tuple[Sequence[int], Sequence[float]]]:
            was_training = self.policy.training
            self.policy.eval()
            replies = sampled(self.policy, conversations, self.recipe.most_tokens)
            self.policy.train(was_training)
            return [(reply.tokens, reply.logprobs) for reply in replies]

        return Speaker(self.vocabulary, sample)

    def _rollouts(self, prompts: list[str], _trainer: Any) -> dict[str, list[Any]]:
        indices = list(dict.fromkeys(map(int, prompts)))
        per_task = len(prompts) // len(indices)
        self._speaker.spoken.clear()
        groups = self.ground.play(indices, per_task, self._speaker.base_url, self._speaker.spoken)
        self._of_step = groups
        rows = [self._row(played, _mean_reward(group)) for group in groups for played in group]
        return {key: [row[key] for row in rows] for key in rows[0]}

    def _row(self, played: Played, mean: float) -> dict[str, Any]:
        """A rollout as TRL takes it; one without a reward gets its group's mean, and so no advantage."""
        trajectory = played.trajectory
        reward = mean if played.reward is None else played.reward
        return {
            "prompt_ids": list(trajectory.prompt) if trajectory else [START],
            "completion_ids": list(trajectory.completion) if trajectory else [END],
            "logprobs": list(trajectory.logprobs) if trajectory else [0.0],
            "env_mask": list(trajectory.mask) if trajectory else [0],
            "paid": reward if self.recipe.constant is None else self.recipe.constant,
        }

    def finished(self, number: int, gradient: float, seconds: float) -> None:
        """File a step that TRL has finished."""
        known = [played.reward for group in self._of_step for played in group if played.reward is not None]
        dead = [len({played.reward for played in group}) < 2 for group in self._of_step]
        failed = sum(played.reward is None for group in self._of_step for played in group)
        step = Step(number, fmean(known) if known else 0.0, fmean(dead), failed, gradient, seconds)
        self.steps.append(step)
        self.seen(step)


def _environment_reward(paid: list[float], **_: Any) -> list[float]:
    return paid


def _mean_reward(group: Sequence[Played]) -> float:
    known = [played.reward for played in group if played.reward is not None]
    return fmean(known) if known else 0.0


def _tokenizer(vocabulary: Vocabulary) -> PreTrainedTokenizerFast:
    """TRL wants one; the words are the vocabulary's numbers."""
    words = {f"<{number}>": number for number in range(vocabulary.size)}
    inner = Tokenizer(models.WordLevel(words, unk_token=f"<{UNKNOWN}>"))
    marks = {"pad_token": f"<{PAD}>", "bos_token": f"<{START}>", "eos_token": f"<{END}>", "unk_token": f"<{UNKNOWN}>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, padding_side="left", **marks)


class _Watcher(TrainerCallback):  # type: ignore[misc]
    def __init__(self, learning: Learning, most_seconds: float) -> None:
        self._learning = learning
        self._most_seconds = most_seconds
        self._started = time.monotonic()

    def on_log(self, _args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> Any:
        spent = time.monotonic() - self._started
        if logs and "grad_norm" in logs:
            self._learning.finished(state.global_step, float(logs["grad_norm"]), spent)
        if spent > self._most_seconds:
            control.should_training_stop = True
        return control
