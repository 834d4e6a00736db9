"""Sampling a causal language model in batches, with the log probability of every token that is said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class SamplingSettings:
    """How replies are sampled; from the whole distribution, as the trainer scores them."""

    most_tokens: int
    ends: Collection[int]
    """Tokens that end a reply."""
    pad: int
    temperature: float = 1.0
    """At 0 the likeliest token is taken."""
    at_once: int = 64
    """Conversations of one batch."""


@dataclass(frozen=True)
class SampledReply:
    """One sampled reply."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


def sampled(model: Any, conversations: Sequence[Sequence[int]], manner: SamplingSettings) -> list[SampledReply]:
    """A reply to each conversation, in the order given; the model is in evaluation mode meanwhile."""
    was_training = model.training
    model.eval()
    try:
        by_length = sorted(range(len(conversations)), key=lambda place: len(conversations[place]))
        found: dict[int, SampledReply] = {}
        for start in range(0, len(by_length), manner.at_once):
            places = by_length[start : start + manner.at_once]
            replies = _batch(model, [conversations[place] for place in places], manner)
            found.update(zip(places, replies, strict=True))
        return [found[place] for place in range(len(conversations))]
    finally:
        model.train(was_training)


@torch.no_grad()  # type: ignore[untyped-decorator]
def _batch(model: Any, conversations: Sequence[Sequence[int]], manner: SamplingSettings) -> list[SampledReply]:
    device = next(model.parameters()).device
    longest = max(map(len, conversations))
    rows = [[manner.pad] * (longest - len(each)) + list(each) for each in conversations]
    masks = [[0] * (longest - len(each)) + [1] * len(each) for each in conversations]
    heard, mask = torch.tensor(rows, device=device), torch.tensor(masks, device=device)
    said: list[list[int]] = [[] for _ in conversations]
    logprobs: list[list[float]] = [[] for _ in conversations]
    speaking, cache = list(range(len(conversations))), None  # which conversation each row of the batch is
    open_ones = set(speaking)
    for _ in range(manner.most_tokens):
        places = (mask.cumsum(-1) - 1).clamp(min=0)[:, -heard.shape[1] :]
        out = model(
            input_ids=heard,
            attention_mask=mask,
            position_ids=places,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = out.past_key_values
        chosen, values = _chosen(out.logits[:, -1].float(), manner.temperature)
        for conversation, token, value in zip(speaking, chosen.tolist(), values.tolist(), strict=True):
            if conversation in open_ones:
                said[conversation].append(token)
                logprobs[conversation].append(value)
                if token in manner.ends:
                    open_ones.discard(conversation)
        if not open_ones:
            break
        if len(open_ones) <= len(speaking) // 2:  # those that ended cost no more
            kept = [row for row, conversation in enumerate(speaking) if conversation in open_ones]
            speaking = [speaking[row] for row in kept]
            rows_kept = torch.tensor(kept, device=device)
            cache.batch_select_indices(rows_kept)
            chosen, mask = chosen[rows_kept], mask[rows_kept]
        heard, mask = chosen[:, None], torch.cat([mask, mask.new_ones(len(speaking), 1)], dim=1)
    return [SampledReply(tuple(tokens), tuple(values)) for tokens, values in zip(said, logprobs, strict=True)]


def _chosen(logits: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A token for each row and its log probability."""
    distribution = (logits / temperature if temperature > 0 else logits).log_softmax(-1)
    chosen = torch.multinomial(distribution.exp(), 1) if temperature > 0 else distribution.argmax(-1, keepdim=True)
    return chosen[:, 0], distribution.gather(-1, chosen)[:, 0]
