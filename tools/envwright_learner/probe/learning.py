"""The training of a probe's tiny policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from envwright_learner.environment import RolloutFunction, TrainingEnvironment, tally
from envwright_learner.grpo import GRPOConfig, grpo_trainer, silence_libraries
from envwright_learner.model import SamplingSettings, sampled
from envwright_learner.probe.policy import TinyPolicy
from envwright_learner.probe.vocabulary import END, PAD, START, UNKNOWN, Vocabulary
from envwright_learner.serving import PolicyServer, SamplingRequest

IDLE_STEPS, IDLE_SHARE = 10, 0.85
"""Training ends after this many steps in a row in which this share of groups had equal rewards: little is left to
learn."""


@dataclass(frozen=True)
class ProbeSettings:
    """The settings of a probe. Measured on two cores: a step is dominated by sampling."""

    batch_size: int = 128
    """Rollouts per step."""
    group_size: int = 16
    learning_rate: float = 2e-3
    most_tokens: int = 24
    seed: int = 0
    constant: float | None = None
    """The reward of every rollout in place of the environment's, so that nothing can be learned."""


@dataclass(frozen=True)
class ProbeStep:
    """One finished step."""

    number: int
    reward: float
    """Mean of the environment's own rewards, over the rollouts that have one."""
    zero_variance: float
    """Share of groups in which all rewards are equal, so that they teach nothing."""
    failed: int
    gradient: float
    seconds: float
    """Since training began."""


@dataclass
class ProbeTraining:
    """One training under way."""

    environment: TrainingEnvironment
    vocabulary: Vocabulary
    policy: TinyPolicy
    settings: ProbeSettings
    folder: Path
    seen: Callable[[ProbeStep], None]
    steps: list[ProbeStep] = field(default_factory=list)
    _rollouts: RolloutFunction = field(init=False, repr=False)

    def run(self, tasks: Sequence[int], most_steps: int, most_seconds: float) -> None:
        """Train until the steps or the seconds are used up; resumes after the last step in the folder."""
        settings = self.settings
        silence_libraries()
        arguments = GRPOConfig(
            output_dir=str(self.folder),
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="steps",
            save_steps=1,  # it is small, and no finished step is lost at any end of the run
            save_total_limit=1,
            logging_steps=1,
            disable_tqdm=True,
            max_steps=most_steps,
            per_device_train_batch_size=settings.batch_size,
            num_generations=settings.group_size,
            max_completion_length=settings.most_tokens,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="constant",
            beta=0.0,
            seed=settings.seed,
            dataloader_pin_memory=False,
            gradient_checkpointing=False,
        )
        with self.served() as server:
            self._rollouts = RolloutFunction(self.environment, server, END, settings.constant)
            tokenizer, callback = _tokenizer(self.vocabulary), _StepCallback(self, most_seconds)
            trainer = grpo_trainer(self.policy, tokenizer, arguments, self._rollouts, tasks, [callback])
            last = get_last_checkpoint(str(self.folder)) if self.folder.is_dir() else None
            trainer.train(resume_from_checkpoint=last)

    def evaluated(self, tasks: Sequence[int], rollouts: int) -> list[list[float]]:
        """Rewards of the current policy by task, without rollouts that have none."""
        with self.served() as server:
            played = self.environment.play([task for task in tasks for _ in range(rollouts)], server)
        return [[one.reward for one in played if one.task == task and one.reward is not None] for task in tasks]

    def served(self) -> PolicyServer:
        """The policy as an endpoint."""
        settings = SamplingSettings(self.settings.most_tokens, (END,), PAD, at_once=self.settings.batch_size)

        def sample(requests: Sequence[SamplingRequest]) -> list[tuple[Sequence[int], Sequence[float]]]:
            conversations = [request.heard for request in requests]
            return [(reply.tokens, reply.logprobs) for reply in sampled(self.policy, conversations, settings)]

        return PolicyServer(self.vocabulary, sample)

    def finished(self, number: int, gradient: float, seconds: float) -> None:
        """Record a step that TRL has finished."""
        of_step = tally(self._rollouts.latest)
        step = ProbeStep(number, of_step.reward, of_step.zero_variance, of_step.failed, gradient, seconds)
        self.steps.append(step)
        self.seen(step)


def _tokenizer(vocabulary: Vocabulary) -> PreTrainedTokenizerFast:
    """A tokenizer, because TRL requires one; the words are the vocabulary's numbers."""
    words = {f"<{number}>": number for number in range(vocabulary.size)}
    inner = Tokenizer(models.WordLevel(words, unk_token=f"<{UNKNOWN}>"))
    marks = {"pad_token": f"<{PAD}>", "bos_token": f"<{START}>", "eos_token": f"<{END}>", "unk_token": f"<{UNKNOWN}>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, padding_side="left", **marks)


class _StepCallback(TrainerCallback):  # type: ignore[misc]
    def __init__(self, learning: ProbeTraining, most_seconds: float) -> None:
        self._learning = learning
        self._most_seconds = most_seconds
        self._started = time.monotonic()

    def on_log(self, _args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> Any:
        spent = time.monotonic() - self._started
        if logs and "grad_norm" in logs:
            self._learning.finished(state.global_step, float(logs["grad_norm"]), spent)
        latest = [step.zero_variance for step in self._learning.steps[-IDLE_STEPS:]]
        nothing_left = len(latest) == IDLE_STEPS and fmean(latest) >= IDLE_SHARE
        if spent > self._most_seconds or nothing_left:
            control.should_training_stop = True
        return control
