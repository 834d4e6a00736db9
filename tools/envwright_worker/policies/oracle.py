"""The reference reply: from the author's tests/oracle.py, or derived from the task."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from envwright_worker.failures import Accusation, Sources, shortened
from envwright_worker.messages import Message, says, text_of
from envwright_worker.policies.answers import answer_of
from envwright_worker.policies.tool_calls import call_asked_for, result_of_calls


class OracleError(Accusation):
    """The author's oracle returned something that is not a reply."""


class NoOracle(Exception):
    """There is no reference reply to a task."""


@dataclass(frozen=True)
class AskingAgent:
    """The agent that requests a reply, in one conversation."""

    name: str = ""
    """Empty if the environment has only one, or the reply is scored without a rollout."""
    is_trained: bool = True
    """Whether it is the trained model; a simulated user is part of the environment."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The offered tools, as in the request."""
    task: Mapping[str, Any] | None = None
    """The task that the environment gave to this agent, if that is not the row itself."""
    conversation: str = ""
    """The common id of its requests in one rollout."""


ALONE = AskingAgent()
LONGEST_SHOWN = 300
"""Characters of the message that an oracle failed on."""
PER_AGENT = "reply_"
"""tests/oracle.py may have a function `reply_NAME(task, messages)` for an agent."""


class AuthorsOracle:
    """`reply(task, messages)` of tests/oracle.py, and `reply_NAME(task, messages)` for the agent NAME.

    `reply` replies for every trained agent without a function of its own.
    """

    derived = False

    def __init__(self, path: Path) -> None:
        self._module = _import_file(path)
        if not any(callable(one) and _replies(name) for name, one in vars(self._module).items()):
            raise OracleError(f"{path.name} has no function reply(task, messages)")

    def reply(self, task: Mapping[str, Any], messages: Sequence[Message], agent: AskingAgent = ALONE) -> Message:
        function = self._function(agent)
        returned = function(dict(task), [dict(message) for message in messages])
        if returned is None:
            raise NoOracle("the oracle returns None")
        if isinstance(returned, str):
            return says(returned)
        if isinstance(returned, Mapping) and ("content" in returned or "tool_calls" in returned):
            return {"role": "assistant", "content": returned.get("content") or "", **returned}
        code = getattr(inspect.unwrap(function), "__code__", None)
        name = getattr(function, "__name__", "reply")
        raise OracleError(f"{name}() returned {type(returned).__name__}, not a string or an assistant message", code)

    def _function(self, agent: AskingAgent) -> Callable[..., Any]:
        """The function that replies for an agent. Raises `NoOracle`."""
        own = getattr(self._module, f"{PER_AGENT}{agent.name}", None) if agent.name else None
        function: Callable[..., Any] | None = own or (
            getattr(self._module, "reply", None) if agent.is_trained else None
        )
        if function is None or not callable(function):
            wanted = f"{PER_AGENT}{agent.name}" if agent.name else "reply"
            raise NoOracle(f"tests/oracle.py has no {wanted}(task, messages)")
        return function


def _replies(name: str) -> bool:
    return name == "reply" or name.startswith(PER_AGENT)


def oracle_failure(error: BaseException, messages: Sequence[Message], sources: Sources) -> dict[str, Any]:
    """An exception of the author's oracle as the `Failure` of facts, with the message that it replied to."""
    last = next((text_of(message) for message in reversed(messages) if message["role"] != "assistant"), "")
    return sources.failure(error) | {"replying_to": shortened(last, LONGEST_SHOWN)}


class DerivedOracle:
    """Returns the task's own answer in the format of the prompt or parser.

    If tools are offered and the task names a call, it makes that call first; without an answer of the task, the
    tool's result is the answer.
    """

    derived = True

    def __init__(self, tags: Sequence[str] = ()) -> None:
        self._tags = list(tags)

    def reply(self, task: Mapping[str, Any], messages: Sequence[Message], agent: AskingAgent = ALONE) -> Message:
        if not agent.is_trained:
            raise NoOracle(f"the reply of the agent {agent.name} is not known")
        own = task if agent.task is None else agent.task
        answer = answer_of(dict(own))
        called = any(message.get("tool_calls") for message in messages)
        if agent.tools and not called:
            call = call_asked_for(own, messages, agent.tools, has_answer=answer is not None)
            if call is not None:
                return call
        if answer is None and called:
            answer = result_of_calls(messages)
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
    spec = importlib.util.spec_from_file_location("envwright_oracle", path)
    if spec is None or spec.loader is None:
        raise OracleError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
