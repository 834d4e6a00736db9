"""A tiny causal language model with random weights, and its sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

from envwright_learner.probe.vocabulary import END, PAD, START, Vocabulary

NEVER = -1e9
"""The bias of tokens that must not be sampled."""
EMBEDDING_DEVIATION = 0.2
"""Ten times GPT-2's, so that positions have an effect from the first step."""
WARM_UP_STEPS, WARM_UP_BATCH, WARM_UP_RATE, WARM_UP_SEED = 60, 64, 1e-3, 0


class _Backbone(GPT2Model):  # type: ignore[misc]
    """Position embeddings that count from the beginning of a prompt: prompts are padded on the left."""

    def forward(self, input_ids: Any, *arguments: Any, **named: Any) -> Any:
        mask = named.get("attention_mask")
        if named.get("position_ids") is None and mask is not None:
            named["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -input_ids.shape[1] :]
        return super().forward(input_ids, *arguments, **named)


class TinyPolicy(GPT2LMHeadModel):  # type: ignore[misc]
    """A GPT-2 that can only produce the pieces of reference replies.

    That is a fixed bias of its last layer, so that TRL, which reads the layer to score replies, gets the sampled
    distribution.
    """

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.transformer = _Backbone(config)
        self.lm_head = torch.nn.Linear(config.n_embd, config.vocab_size, bias=True)
        self.post_init()
        bias = torch.full((config.vocab_size,), NEVER)
        bias[list(config.sayable)] = 0.0
        self.lm_head.bias = torch.nn.Parameter(bias, requires_grad=False)


def tiny_policy(vocabulary: Vocabulary, longest: int, seed: int, *, width: int = 64, layers: int = 1) -> TinyPolicy:
    """A policy of some fifty thousand random weights; `longest` is the most tokens of a conversation.

    Of the architectures tried, one narrow layer with absolute positions learned to reverse strings in the fewest steps.
    Llama and two layers of width 128 had learned nothing after 100.
    """
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=vocabulary.size,
        n_embd=width,
        n_layer=layers,
        n_head=4,
        n_positions=longest,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=END,
        tie_word_embeddings=False,
    )
    config.sayable = list(vocabulary.sayable)
    policy = TinyPolicy(config)
    for table in (policy.transformer.wpe.weight, policy.transformer.wte.weight):
        torch.nn.init.normal_(table, std=EMBEDDING_DEVIATION)
    # With GPT-2's own deviation of 0.02 attention starts uniform: a mean reward of 0.5 took 70 to over 140 steps, and
    # takes 41 to 50 with this one (five seeds each, strings of five letters).
    for block in policy.transformer.h:
        for layer in (block.attn.c_attn, block.attn.c_proj):
            torch.nn.init.normal_(layer.weight, std=width**-0.5)
    return policy


def warm_up(
    policy: TinyPolicy, vocabulary: Vocabulary, prompts: Sequence[Sequence[int]], lengths: Sequence[int]
) -> None:
    """Teach the form of a reply, and nothing of the task: random letters, as many as a reference reply has, and an end.

    Without it, a random policy stops at random, and a reward that requires more than a guess is never earned. The
    measurement before training follows this step.
    """
    draw = torch.Generator().manual_seed(WARM_UP_SEED)
    letters = torch.tensor([token for token in vocabulary.sayable if token != END])
    learned = [weight for weight in policy.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=WARM_UP_RATE, weight_decay=0.0)
    for _ in range(WARM_UP_STEPS):
        rows = []
        for choice in torch.randint(len(prompts), (WARM_UP_BATCH,), generator=draw).tolist():
            length = lengths[int(torch.randint(len(lengths), (1,), generator=draw))]
            reply = letters[torch.randint(len(letters), (length,), generator=draw)].tolist()
            rows.append((list(prompts[choice]), [*reply, END]))
        loss = _cross_entropy(policy, rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _cross_entropy(policy: TinyPolicy, rows: Sequence[tuple[list[int], list[int]]]) -> torch.Tensor:
    """The loss of the replies only; prompts are masked."""
    longest = max(len(prompt) + len(reply) for prompt, reply in rows)
    tokens = torch.full((len(rows), longest), PAD)
    wanted = torch.full((len(rows), longest), -100)
    for number, (prompt, reply) in enumerate(rows):
        tokens[number, : len(prompt) + len(reply)] = torch.tensor(prompt + reply)
        wanted[number, len(prompt) : len(prompt) + len(reply)] = torch.tensor(reply)
    logits = policy(input_ids=tokens, attention_mask=(tokens != PAD).long()).logits
    loss: torch.Tensor = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), wanted[:, 1:].flatten())
    return loss
