"""Transcripts packed for pages: rows for a list, and the conversations, as one compressed text.

The text is data in base64: a page may hold it, and a script beside the page is a call with it and nothing else.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from envwright.facts.transcripts import Transcript, TranscriptTurn
from envwright.text.harmless import harmless
from envwright.text.plain_data import plain_data

LIST_TEXT = 160
"""Characters of prompt and reply in a row; they are searched before any conversation is loaded."""
LEVEL = 6

RowData = dict[str, Any]


@dataclass(frozen=True)
class PackedTranscripts:
    """The chosen transcripts of one environment."""

    shown: int
    of: int
    """The rollouts among which they were chosen."""
    ids: tuple[str, ...]
    content: str


@dataclass(frozen=True)
class ListedTranscript:
    """A transcript and the lists that it is in: `best`, `worst`, `oddest` or a rule, each with its reason."""

    transcript: Transcript
    lists: tuple[tuple[str, str], ...] = ()


def packed_transcripts(listed: Sequence[ListedTranscript], of: int) -> PackedTranscripts:
    """Transcripts for one page, all in one part."""
    rows = [transcript_row(one, place=(0, index)) for index, one in enumerate(listed)]
    conversations = [transcript_data(one.transcript) for one in listed]
    content = packed({"rows": rows, "conversations": conversations})
    return PackedTranscripts(len(listed), of, tuple(one.transcript.id for one in listed), content)


def packed(data: Any) -> str:
    """Plain data as a text that holds letters, digits, `+`, `/` and `=` only."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), LEVEL)).decode("ascii")


def unpacked(content: str) -> Any:
    """The data of a packed text. Raises `ValueError` if it is not one."""
    try:
        return json.loads(zlib.decompress(base64.b64decode(content, validate=True)))
    except zlib.error as error:
        raise ValueError(f"is not packed data: {error}") from None


def transcript_row(listed: ListedTranscript, place: tuple[int, int]) -> RowData:
    """A line of the list. `place` is the part that holds the conversation, and its place there."""
    one = listed.transcript
    row = {
        "id": one.id,
        "kind": one.kind,
        "speaker": one.speaker,
        "task": one.task,
        "rollout": one.rollout,
        "reward": one.reward,
        "turns": one.replies,
        "characters": one.characters,
        "seconds": one.seconds,
        "error": one.error[:LIST_TEXT],
        "lists": listed.lists,
        "words": _words(one),
        "place": place,
    }
    shown: RowData = harmless(plain_data(row), sys.maxsize)
    return shown


def _words(one: Transcript) -> str:
    prompt = next((turn.text for turn in reversed(one.turns[: one.prompt_turns])), "")
    reply = next((turn.text for turn in reversed(one.turns[one.prompt_turns :]) if turn.role == "assistant"), "")
    return " ".join(f"{prompt[:LIST_TEXT]} {reply[-LIST_TEXT:]}".split())


def transcript_data(one: Transcript) -> RowData:
    """A whole conversation for the page; nothing in it is cut."""
    data: Mapping[str, Any] = {
        **{name: value for name, value in vars(one).items() if name not in ("turns", "functions")},
        "functions": [[name, score.score, score.weight, score.kind] for name, score in one.functions.items()],
        "turns": [_turn(turn) for turn in one.turns],
    }
    shown: RowData = harmless(plain_data(data), sys.maxsize)
    return shown


def _turn(turn: TranscriptTurn) -> RowData:
    """A turn as data, without its empty fields."""
    data = {
        **{name: value for name, value in vars(turn).items() if name not in ("parts", "calls")},
        "parts": [[part.kind, part.text, part.about] for part in turn.parts],
        "calls": [asdict(call) for call in turn.calls],
    }
    return {name: value for name, value in data.items() if value not in (None, "", [])}
