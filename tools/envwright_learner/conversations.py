"""Replies of a policy as tokens, looked up by their conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from envwright_worker.messages import Message, text_of


@dataclass(frozen=True)
class Turn:
    """One sampled reply."""

    heard: tuple[int, ...]
    """Tokens of the conversation before it."""
    reply: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Natural logarithm of the probability of each token of `reply`."""


@dataclass(frozen=True)
class Trajectory:
    """A rollout in a trainer's form: tokens of the environment between the turns are masked out."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    logprobs: tuple[float, ...]
    mask: tuple[int, ...]


class LostTurn(LookupError):
    """A rollout has a reply that the policy did not sample at this place."""


@dataclass
class _Said:
    """A turn with the exact conversation that it ends."""

    exact: str
    turn: Turn
    taken: bool = False
    """Whether it is the end of a known rollout, because no two rollouts have the same end."""


@dataclass
class SampledTurns:
    """All turns since the last clearing."""

    _said: dict[str, list[_Said]] = field(default_factory=dict)
    """Turns by the text and the calls of a conversation. Rollouts of one task repeat the same text."""

    def add(self, messages: Sequence[Message], reply: Message, turn: Turn) -> None:
        """Add a turn."""
        conversation = [*messages, reply]
        self._said.setdefault(_key(conversation), []).append(_Said(_exact(conversation), turn))

    def turn(self, messages: Sequence[Message]) -> Turn | None:
        """The turn that a conversation continues, `None` if its last message was not sampled here.

        If a reply occurs more than once, the first is used, because their tokens are equal.
        """
        return next((entry.turn for entry in self._alike(messages)), None)

    def clear(self) -> None:
        self._said.clear()

    def trajectory(self, prompt: Sequence[Message], completion: Sequence[Message]) -> Trajectory:
        """The tokens of a rollout. Each last turn is returned once, so call this once for each rollout.

        Raises `LostTurn` if it contains a reply that was not sampled here, or that was rewritten.
        """
        messages = [*prompt, *completion]
        ends = [place + 1 for place in range(len(prompt), len(messages)) if messages[place]["role"] == "assistant"]
        if not ends:
            raise LostTurn("the rollout contains no reply")
        turns = [self._last(messages[: ends[-1]])]
        for end in reversed(ends[:-1]):
            turns.insert(0, self._before(messages[:end], turns[0]))
        return joined(turns)

    def _last(self, messages: Sequence[Message]) -> Turn:
        """The last turn of a rollout, which is not returned for another one. Raises `LostTurn`."""
        alike = self._alike(messages)
        free = next((entry for entry in alike if not entry.taken), None)
        if free is None:
            often = f" more than {len(alike)} times" if alike else ""
            raise LostTurn(f"{_quoted(messages)} was not sampled there{often}")
        free.taken = True
        return free.turn

    def _before(self, messages: Sequence[Message], later: Turn) -> Turn:
        """The turn whose tokens a later one continues. Raises `LostTurn`."""
        alike = [entry.turn for entry in self._alike(messages)]
        if not alike:
            raise LostTurn(f"{_quoted(messages)} was not sampled there")
        return next((turn for turn in alike if continues(later, (*turn.heard, *turn.reply))), alike[0])

    def _alike(self, messages: Sequence[Message]) -> list[_Said]:
        """All turns that a conversation may end with, exact matches first."""
        if not messages or messages[-1]["role"] != "assistant":
            return []
        exact = _exact(messages)
        return sorted(self._said.get(_key(messages), ()), key=lambda entry: entry.exact != exact)


def continues(turn: Turn, so_far: tuple[int, ...]) -> bool:
    """Whether the prompt of the turn has exactly these tokens."""
    return turn.heard[: len(so_far)] == so_far


def joined(turns: Sequence[Turn]) -> Trajectory:
    """Turns of one conversation in a row: the text between two of them is prompt, not reply.

    Raises `LostTurn` if a later turn's prompt differs from the earlier turns.
    """
    prompt = turns[0].heard
    completion, logprobs, mask = list(turns[0].reply), list(turns[0].logprobs), [1] * len(turns[0].reply)
    for turn in turns[1:]:
        so_far = (*prompt, *completion)
        if not continues(turn, so_far):
            raise LostTurn("the conversation was rewritten between two turns: its tokens are not one sequence")
        between = turn.heard[len(so_far) :]
        completion += [*between, *turn.reply]
        logprobs += [0.0] * len(between) + list(turn.logprobs)
        mask += [0] * len(between) + [1] * len(turn.reply)
    return Trajectory(prompt, tuple(completion), tuple(logprobs), tuple(mask))


def _key(messages: Sequence[Message]) -> str:
    """The key of messages: equal for the same text and calls, however a client spells them."""
    return json.dumps([[one["role"], text_of(one).strip(), _calls(one)] for one in messages])


def _exact(messages: Sequence[Message]) -> str:
    return json.dumps([text_of(one) for one in messages])


def _quoted(messages: Sequence[Message]) -> str:
    return repr(text_of(messages[-1])[:80])


def _calls(message: Message) -> list[Any]:
    functions = [call.get("function", call) for call in message.get("tool_calls") or ()]
    return [[function.get("name"), _read(function.get("arguments"))] for function in functions]


def _read(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
