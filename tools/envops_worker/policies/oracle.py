"""The reference reply: from the author's tests/oracle.py, or derived from the task."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from envops_worker.failures import Accusation
from envops_worker.messages import Message, says, text_of
from envops_worker.policies.answers import answer_of


class OracleError(Accusation):
    """The author's oracle returned something that is not a reply."""


class NoOracle(Exception):
    """There is no reference reply to a task."""


class AuthorsOracle:
    """`reply(task, messages)` of tests/oracle.py."""

    derived = False

    def __init__(self, path: Path) -> None:
        self._module = _import_file(path)
        if not callable(getattr(self._module, "reply", None)):
            raise OracleError(f"{path.name} has no function reply(task, messages)")

    def reply(self, task: Mapping[str, Any], messages: Sequence[Message]) -> Message:
        said = self._module.reply(dict(task), [dict(message) for message in messages])
        if said is None:
            raise NoOracle("the oracle returns None")
        if isinstance(said, str):
            return says(said)
        if isinstance(said, Mapping) and ("content" in said or "tool_calls" in said):
            return {"role": "assistant", "content": said.get("content") or "", **said}
        code = getattr(inspect.unwrap(self._module.reply), "__code__", None)
        raise OracleError(f"reply() returned {type(said).__name__}, not a string or an assistant message", code)


class DerivedOracle:
    """Returns the task's own answer in the format of the prompt or parser."""

    derived = True

    def __init__(self, tags: Sequence[str] = ()) -> None:
        self._tags = list(tags)

    def reply(self, task: Mapping[str, Any], messages: Sequence[Message]) -> Message:
        answer = answer_of(dict(task))
        if answer is None:
            raise NoOracle("the task has no answer")
        asked = "\n".join(text_of(message) for message in messages)
        return says(framed(answer, asked, self._tags))


def framed(answer: str, asked: str, tags: Sequence[str] = ()) -> str:
    """The answer in the format of a prompt: XML tags, boxed, hashes, JSON or bare."""
    wanted = list(tags) or list(dict.fromkeys(re.findall(r"<([A-Za-z_]\w*)>", asked)))
    if wanted:
        last = "answer" if "answer" in wanted else wanted[-1]
        others = [tag for tag in wanted if tag != last]
        return "\n".join(
            [*(f"<{tag}>\nWorked out step by step.\n</{tag}>" for tag in others), f"<{last}>{answer}</{last}>"]
        )
    if "\\boxed" in asked:
        return f"\\boxed{{{answer}}}"
    if "####" in asked:
        return f"#### {answer}"
    if re.search(r"\bjson\b", asked, re.IGNORECASE) and '"answer"' in asked:
        return json.dumps({"answer": answer}, ensure_ascii=False)
    return answer


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("envops_oracle", path)
    if spec is None or spec.loader is None:
        raise OracleError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
