"""The replies of a reward diff: each once, and as many as fit."""

from __future__ import annotations

import pytest
from envwright.observing import reward_diff
from envwright.observing.reward_diff import Corpus, CorpusReply
from envwright.statistics.reward_comparison import TwoSides

MOVED = {3: 5, 4: 6}
"""The index of a task before → after."""
BACK = {after: before for before, after in MOVED.items()}


def said(text: str, task: int, source: str = "oracle") -> CorpusReply:
    return CorpusReply(source, task, ({"role": "assistant", "content": text},))


def test_reply_to_a_moved_task_is_scored_once() -> None:
    corpus = Corpus()
    corpus.add([said("four", 3)], TwoSides(lambda task: task, MOVED.get))
    corpus.add([said("four", 5)], TwoSides(BACK.get, lambda task: task))
    assert [tasks for _, tasks in corpus.replies] == [TwoSides(3, 5)]


def test_long_reply_leaves_out_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_diff, "MOST_BYTES", 1_000)
    corpus = Corpus()
    corpus.add([said("x" * 2_000, 0), said("four", 1), said("five", 2)], TwoSides(lambda task: task, lambda task: task))
    corpus.bound()
    assert [reply.task for reply, _ in corpus.replies] == [1, 2]
    assert corpus.left_out == 1
