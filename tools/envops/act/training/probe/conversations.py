"""What a policy said, token by token, found again by the conversation in which it said it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envops.judge.evidence import text_of

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Turn:
    """One reply as it was sampled."""

    heard: tuple[int, ...]
    """Tokens of the conversation before it."""
    said: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural logarithm of the probability of each token of `said`."""


@dataclass(frozen=True)
class Trajectory:
    """A rollout as a trainer takes it: tokens of the environment between the turns are masked out."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    logprobs: tuple[float, ...]
    mask: tuple[int, ...]


class LostTurn(LookupError):
    """A rollout holds a reply that the policy never gave."""


@dataclass
class Spoken:
    """All turns since it was emptied."""

    _turns: dict[str, Turn] = field(default_factory=dict)

    def add(self, messages: Sequence[Message], text: str, turn: Turn) -> None:
        """File a turn; one that was said twice in the same place is the same to everybody."""
        self._turns[_key([*messages, {"role": "assistant", "content": text}])] = turn

    def clear(self) -> None:
        self._turns.clear()

    def trajectory(self, prompt: Sequence[Message], completion: Sequence[Message]) -> Trajectory:
        """The tokens of a rollout.

        Raises `LostTurn` where it holds a reply that was not sampled here.
        """
        messages = [*prompt, *completion]
        turns = []
        for place in range(len(prompt), len(messages)):
            if messages[place]["role"] == "assistant":
                key = _key(messages[: place + 1])
                if key not in self._turns:
                    raise LostTurn(f"nobody said {text_of(messages[place])[:80]!r} there")
                turns.append(self._turns[key])
        if not turns:
            raise LostTurn("the rollout holds no reply")
        return joined(turns)


def joined(turns: Sequence[Turn]) -> Trajectory:
    """Turns of one conversation in a row: what came between two of them is heard, not said."""
    prompt = turns[0].heard
    completion, logprobs, mask = list(turns[0].said), list(turns[0].logprobs), [1] * len(turns[0].said)
    for turn in turns[1:]:
        before = len(prompt) + len(completion)
        between = turn.heard[before:]
        completion += [*between, *turn.said]
        logprobs += [0.0] * len(between) + list(turn.logprobs)
        mask += [0] * len(between) + [1] * len(turn.said)
    return Trajectory(prompt, tuple(completion), tuple(logprobs), tuple(mask))


def _key(messages: Sequence[Message]) -> str:
    return json.dumps([[message["role"], text_of(message)] for message in messages])
