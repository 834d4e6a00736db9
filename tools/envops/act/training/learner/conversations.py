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
    """A rollout holds a reply that the policy never gave, or not there."""


@dataclass
class Spoken:
    """All turns since it was emptied."""

    _turns: dict[str, Turn] = field(default_factory=dict)

    def add(self, messages: Sequence[Message], reply: Message, turn: Turn) -> None:
        """File a turn. Where the same was said twice, the first counts: later turns continue its tokens."""
        self._turns.setdefault(_key([*messages, reply]), turn)

    def turn(self, messages: Sequence[Message]) -> Turn | None:
        """The turn that a conversation ends with, `None` where its last message was not sampled here."""
        return self._turns.get(_key(messages)) if messages and messages[-1]["role"] == "assistant" else None

    def clear(self) -> None:
        self._turns.clear()

    def trajectory(self, prompt: Sequence[Message], completion: Sequence[Message]) -> Trajectory:
        """The tokens of a rollout.

        Raises `LostTurn` where it holds a reply that was not sampled here, or was rewritten on the way.
        """
        messages = [*prompt, *completion]
        turns = []
        for place in range(len(prompt), len(messages)):
            if messages[place]["role"] == "assistant":
                turn = self.turn(messages[: place + 1])
                if turn is None:
                    raise LostTurn(f"nobody said {text_of(messages[place])[:80]!r} there")
                turns.append(turn)
        if not turns:
            raise LostTurn("the rollout holds no reply")
        return joined(turns)


def joined(turns: Sequence[Turn]) -> Trajectory:
    """Turns of one conversation in a row: what came between two of them is heard, not said.

    Raises `LostTurn` where a later turn heard another conversation than the earlier ones made.
    """
    prompt = turns[0].heard
    completion, logprobs, mask = list(turns[0].said), list(turns[0].logprobs), [1] * len(turns[0].said)
    for turn in turns[1:]:
        so_far = (*prompt, *completion)
        if turn.heard[: len(so_far)] != so_far:
            raise LostTurn("the conversation was rewritten between two turns: its tokens are no one sequence")
        between = turn.heard[len(so_far) :]
        completion += [*between, *turn.said]
        logprobs += [0.0] * len(between) + list(turn.logprobs)
        mask += [0] * len(between) + [1] * len(turn.said)
    return Trajectory(prompt, tuple(completion), tuple(logprobs), tuple(mask))


def _key(messages: Sequence[Message]) -> str:
    """Equal for messages that say and call the same, however a client spells them."""
    return json.dumps([[one["role"], text_of(one).strip(), _calls(one)] for one in messages])


def _calls(message: Message) -> list[Any]:
    functions = [call.get("function", call) for call in message.get("tool_calls") or ()]
    return [[function.get("name"), _read(function.get("arguments"))] for function in functions]


def _read(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
