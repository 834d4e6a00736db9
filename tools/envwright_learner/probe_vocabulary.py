"""The words of a probe's model: one token each for the text that all prompts or all reference replies share.

A model with some fifty thousand random weights cannot learn a language in three minutes. It learns only the part
that varies: characters between the constant pieces. The opening and the closing of reference replies are the model's
chat template, as `<think>` is for models that start every reply with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envwright.facts.observed import Description
from envwright_worker.messages import text_of

PAD, START, END, UNKNOWN = range(4)
ROLES = {"system": 4, "user": 5, "assistant": 6, "tool": 7}
FIRST_PIECE = 8
SHORTEST_CONSTANT = 3
"""A shared piece of at most this length is spelled by its characters."""

SMALLER = "Give arguments that make the tasks smaller (`probe: {args: …}` in registry.yaml, or --env-args)"
INSTEAD = (
    "train a small real model on it (a run with `backend: trl`, docs/training.md), which takes turns and tools; "
    "`envwright distribution` shows whether its rewards leave something to learn"
)


class NotForAProbe(ValueError):
    """The environment requires more than a tiny model can produce."""


def require_single_turn(about: Description) -> None:
    """Raise `NotForAProbe` if an environment has tools or is multi-turn: the model has words for one reply."""
    if about.tools:
        raise NotForAProbe(
            f"it has tools ({', '.join(about.tools)}), which a tiny model cannot call. Instead: {INSTEAD}"
        )
    if about.conversational:
        raise NotForAProbe(f"it is multi-turn, and a tiny model writes one reply. Instead: {INSTEAD}")


@dataclass(frozen=True)
class Vocabulary:
    """Texts by token; the first eight tokens are marks without a text."""

    pieces: tuple[str, ...]
    opening: str = ""
    closing: str = ""
    alphabet: frozenset[str] = frozenset()
    """The pieces of reference replies between opening and closing: the only ones that the model may produce."""

    @property
    def size(self) -> int:
        return FIRST_PIECE + len(self.pieces)

    @property
    def sayable(self) -> tuple[int, ...]:
        """The tokens that the model may sample."""
        return (END, *(FIRST_PIECE + place for place, piece in enumerate(self.pieces) if piece in self.alphabet))

    def reply(self, sampled: Sequence[int]) -> dict[str, Any]:
        """The message of sampled tokens; it is closed only if the model ended it itself."""
        text = "".join(self.pieces[token - FIRST_PIECE] for token in sampled if token >= FIRST_PIECE)
        return {"role": "assistant", "content": f"{self.opening}{text}{self.closing if self.ended(sampled) else ''}"}

    def ended(self, sampled: Sequence[int]) -> bool:
        """Whether the model ended the reply itself."""
        return END in sampled

    def heard(self, messages: Sequence[Mapping[str, Any]], _tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """A conversation as tokens, and the mark before the model's turn."""
        return [START, *self._heard(messages)]

    def heard_after(
        self,
        messages: Sequence[Mapping[str, Any]],
        place: int,
        _tools: Sequence[Mapping[str, Any]],
        sampled: Sequence[int],
    ) -> list[int]:
        """The tokens after a sampled reply, with the mark before the model's next turn."""
        return [*([] if self.ended(sampled) else [END]), *self._heard(messages[place + 1 :])]

    def _heard(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        tokens: list[int] = []
        for message in messages:
            role = ROLES.get(str(message.get("role")), ROLES["user"])
            tokens += [role, *self._tokens(text_of(message))]
        return [*tokens, ROLES["assistant"]]

    def _tokens(self, text: str) -> list[int]:
        tokens, place = [], 0
        while place < len(text):
            found = next((piece for piece in self._constants if text.startswith(piece, place)), text[place])
            tokens.append(self._numbers.get(found, UNKNOWN))
            place += len(found)
        return tokens

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {piece: FIRST_PIECE + place for place, piece in enumerate(self.pieces)}

    @cached_property
    def _constants(self) -> list[str]:
        return sorted((piece for piece in self.pieces if len(piece) > 1), key=len, reverse=True)


def vocabulary_of(prompts: Sequence[Sequence[Mapping[str, Any]]], references: Sequence[str]) -> Vocabulary:
    """The vocabulary of an environment, from the prompts of its tasks and the replies of a perfect model.

    Raises `ValueError` if they are empty.
    """
    if not any(references):
        raise ValueError("the reference replies are empty: there is nothing to learn")
    opening, closing = shared(references)
    cores = [text[len(opening) : len(text) - len(closing)] for text in references]
    constants: dict[str, None] = {}
    characters = set("".join(cores))
    for texts in _texts_by_place(prompts):
        first, last = shared(texts)
        constants |= {piece: None for piece in (first, last) if len(piece) > SHORTEST_CONSTANT}
        cut = first if len(first) > SHORTEST_CONSTANT else "", last if len(last) > SHORTEST_CONSTANT else ""
        characters |= set("".join(text[len(cut[0]) : len(text) - len(cut[1])] for text in texts))
    constants |= {piece: None for piece in (opening, closing) if len(piece) > SHORTEST_CONSTANT}
    return Vocabulary((*constants, *sorted(characters)), opening, closing, frozenset("".join(cores)))


def shared(texts: Sequence[str]) -> tuple[str, str]:
    """The longest opening and closing that all texts share without overlapping; empty if all are equal."""
    different = list(dict.fromkeys(texts))
    if len(different) < 2:
        return "", ""
    opening = _opening(different)
    rests = [text[len(opening) :][::-1] for text in different]
    return opening, _opening(rests)[::-1]


def _opening(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    length = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]


def _texts_by_place(prompts: Iterable[Sequence[Mapping[str, Any]]]) -> Iterable[list[str]]:
    """The texts of all first messages, of all second ones, and so on."""
    by_place: dict[int, list[str]] = {}
    for prompt in prompts:
        for place, message in enumerate(prompt):
            by_place.setdefault(place, []).append(text_of(message))
    return by_place.values()
