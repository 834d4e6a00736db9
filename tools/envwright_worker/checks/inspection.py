"""Facts of a whole dataset. It is read once, and only hashes and the first finds are kept."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from envwright_worker.adapters.adapter import TaskView
from envwright_worker.messages import media_of, text_of
from envwright_worker.policies.answers import answer_of

MAXIMUM_TASKS = 20_000
"""Tasks read of one split; an infinite taskset is read this far as well."""
KEPT = 20
_MARKS = re.compile(r"(?:answer|solution|target|label|gold)\s*(?:is|=|:|>)|####|\\boxed\{", re.IGNORECASE)
"""What marks the text behind it as the answer."""


@dataclass
class DatasetReader:
    """Collects facts from the tasks of one split."""

    split: str
    conversational: bool = False
    seen: dict[bytes, int] = field(default_factory=dict)
    is_whole: bool = True
    """Whether all tasks were read, up to the limit."""
    _inspected: int = 0
    _empty: list[int] = field(default_factory=list)
    _opened: list[int] = field(default_factory=list)
    """The tasks with only a system prompt: the model opens the conversation if that is so in all of them."""
    _duplicates: list[tuple[int, int]] = field(default_factory=list)
    _given_away: list[int] = field(default_factory=list)

    def read(
        self,
        tasks: Iterable[TaskView],
        each: Callable[[TaskView], None],
        is_late: Callable[[], bool] = lambda: False,
    ) -> None:
        """Read tasks until there are no more, or the time is over."""
        for task in tasks:
            if is_late():
                self.is_whole = False
                return
            self._inspected += 1
            prompt = "\n".join(text_of(message) for message in task.prompt if message["role"] != "system").strip()
            if not prompt and task.prompt and not any(map(media_of, task.prompt)):
                opens = all(message["role"] == "system" for message in task.prompt) and any(map(text_of, task.prompt))
                (self._opened if opens else self._empty).append(task.index)
            fingerprint = fingerprint_of(task, with_data=self.conversational)
            first = self.seen.setdefault(fingerprint, task.index)
            if first != task.index:
                self._duplicates.append((first, task.index))
            if gives_answer_away(prompt, answer_of(task.data)):
                self._given_away.append(task.index)
            each(task)

    def __len__(self) -> int:
        return self._inspected

    def facts(self, size: int | None) -> dict[str, Any]:
        empty = self._empty if len(self._opened) == self._inspected else sorted([*self._empty, *self._opened])
        return {
            "split": self.split,
            "size": size,
            "inspected": self._inspected,
            "empty_prompts": empty[:KEPT],
            "empty_prompt_count": len(empty),
            "duplicates": self._duplicates[:KEPT],
            "duplicate_count": len(self._duplicates),
            "is_cycle": self._is_cycle(),
            "answers_in_prompt": self._given_away[:KEPT],
            "answer_in_prompt_count": len(self._given_away),
        }

    def _is_cycle(self) -> bool:
        again = Counter(first for first, _ in self._duplicates)
        is_each_repeated = len(again) == len(self.seen) > 1
        return is_each_repeated and max(again.values()) - min(again.values()) <= 1


def overlap(training: DatasetReader, evaluation: DatasetReader) -> Iterator[tuple[int, int]]:
    """Index pairs of tasks that are in both splits."""
    for fingerprint, index in evaluation.seen.items():
        if fingerprint in training.seen:
            yield training.seen[fingerprint], index


def fingerprint_of(task: TaskView, *, with_data: bool) -> bytes:
    """A fingerprint; equal for tasks that look the same to the model.

    It is made from the prompt. In a multi-turn environment all tasks may start alike and differ in hidden data, which
    is then included.
    """
    asked: list[Any] = [[message["role"], text_of(message).split(), media_of(message)] for message in task.prompt]
    if with_data or not asked:
        asked.append({key: value for key, value in task.data.items() if key not in ("idx", "example_id", "id")})
    return hashlib.blake2b(json.dumps(asked, sort_keys=True, default=str).encode(), digest_size=16).digest()


def gives_answer_away(prompt: str, answer: str | None) -> bool:
    """Whether the prompt states the answer and marks it as the answer.

    An answer may occur in a prompt for good reasons: choices, extraction and sorting tasks name it. It counts only
    after words such as "answer:" or inside the mark that the reply must use.
    """
    text = (answer or "").strip()
    # compiling a pattern for each answer takes 0.3 ms, so it is compiled only where it can match
    if not text or text.lower() not in prompt.lower() or not _MARKS.search(prompt):
        return False
    stated = rf"((?:answer|solution|target|label|gold)\s*(?:is|=|:|>)\s*[\"'`*]*){re.escape(text)}(?!\w|[.,]\d)"
    marked = rf"(####\s*){re.escape(text)}(?!\w|[.,]\d)|(\\boxed\{{){re.escape(text)}\}}"
    found = re.search(f"{stated}|{marked}", prompt, re.IGNORECASE)
    return found is not None and not _is_offered(prompt, found, text.lower())


def _is_offered(prompt: str, found: re.Match[str], answer: str) -> bool:
    """Whether the same mark stands before another text in the same line, as in `<answer>yes</answer> or
    <answer>no</answer>`."""
    mark = next(filter(None, found.groups()))
    line = prompt[prompt.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
    return any(not part.lower().startswith(answer) for part in line.split(mark)[1:])
