"""The rule of the JSON that reference replies hold: the model can read its keys somewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from envwright_worker.failures import shortened
from envwright_worker.messages import text_of

from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import REPLY_LIMIT, of_conversation
from envwright.rules.reference_replies import gold_by_task
from envwright.text.plain_data import parsed_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.facts.observed import Score, Task

FEWEST_TASKS = 2
"""The least number of tasks whose reply is JSON; with fewer, a key that all of them have may be part of the answer."""
MOST = 0.5
"""The share above which tasks, replies or names count as most."""
_BLOCK = re.compile(r"<(\w+)>(.*?)</\1>|```\w*\n(.*?)```", re.DOTALL)
_TOOL_FIELDS = ("name", "tool", "tool_name", "function")
_ARGUMENT_FIELDS = ("arguments", "parameters", "args", "input", "tool_input")
_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")


@dataclass(frozen=True)
class _JsonReply:
    """A reference reply that holds JSON objects."""

    task: Task
    score: Score
    keys: frozenset[str]
    tools: frozenset[str]
    """Tools that the reply calls in its text."""


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a reply that is JSON, or has JSON as the whole of a tag or of a fenced block."""
    for part in (text, *(tagged or fenced for _, tagged, fenced in _BLOCK.findall(text))):
        value = parsed_json(part)
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping))


def _tool_called(value: Mapping[str, Any]) -> str | None:
    """The tool that an object calls, in the usual form of calls in text."""
    nested = value.get("function")
    inner = nested if isinstance(nested, Mapping) else value
    if not any(str(inner.get(field)).startswith("{") for field in _ARGUMENT_FIELDS):
        return None
    return next((str(inner[field]) for field in _TOOL_FIELDS if isinstance(inner.get(field), str)), None)


def _json_replies(subject: Subject, gold: Mapping[int, Score]) -> list[_JsonReply]:
    tasks = {task.index: task for task in subject.facts.tasks}
    found: list[_JsonReply] = []
    for number, score in gold.items():
        replies = (text_of(message) for message in reversed(score.completion) if message["role"] == "assistant")
        objects = list(_objects(next(replies, "")))
        keys = frozenset(key for value in objects for key in value)
        if number in tasks and keys:
            tools = frozenset(tool for value in objects if (tool := _tool_called(value)))
            found.append(_JsonReply(tasks[number], score, keys, tools))
    return found


def _is_named(name: str, text: str) -> bool:
    """Whether a text has the name, however its words are joined: `unitPrice`, `unit_price`, unit prices."""
    words = [re.escape(word) for word in _WORD.findall(name)] or [re.escape(name)]
    ends = r"(?![^\W\d_])" if len(name) < 3 else ""
    return re.search(r"(?<![^\W\d_])" + r"[\W_]*".join(words) + ends, text, re.IGNORECASE) is not None


def _shown_to_all(subject: Subject) -> list[str]:
    """The messages and the tools that agents got in rollouts."""
    described = subject.facts.description
    tools: Sequence[str] = described.tools if described else ()
    openings = [text_of(message) for agent in subject.facts.agents for message in agent.opening]
    return [*tools, *(tool for agent in subject.facts.agents for tool in agent.tools), *openings]


def _unnamed(replies: Sequence[_JsonReply], to_all: Sequence[str]) -> Iterator[tuple[_JsonReply, list[str]]]:
    """Replies with a tool, or with most of their keys, that the model cannot read anywhere, and these names.

    A key of only few replies is content, not form. Earlier replies of the oracle are not what the model reads.
    """
    having = Counter(key for reply in replies for key in reply.keys)
    form = {key for key, count in having.items() if count > MOST * len(replies)}
    for reply in replies:
        shown = [message for message in reply.score.completion if message["role"] != "assistant"]
        text = "\n".join([*to_all, *(text_of(message) for message in (*reply.task.prompt, *shown))])
        keys = sorted(reply.keys & form)
        missing = [key for key in keys if not _is_named(key, text)]
        tools = [tool for tool in sorted(reply.tools) if not _is_named(tool, text)]
        if tools or len(missing) > MOST * len(keys):
            yield reply, [*missing, *tools]


@rule("RWD097", gate="rewards", severity="warning")
def keys_of_the_reply_are_unnamed(subject: Subject) -> Iterator[Found]:
    """The prompts do not name the keys that a reply needs.

    What: If reference replies that earn a reward are JSON, or call tools in JSON, the model can read the names that
    they use: keys that most of these replies share, and tools. They may be in the prompt, the system prompt, an
    example, a message of the environment or the offered tools. The rule fires if most keys of a reply, or a tool that
    it calls, are missing there, in most tasks.
    Why: The task can only be solved by guessing the names, and training teaches the model to memorise them.
    Fix: Name the keys, and the tools that may be called, in the system prompt, with an example of a reply.
    """
    gold = {task: score for task, score in gold_by_task(subject).items() if (score.reward or 0.0) > subject.range.floor}
    found = list(_unnamed(_json_replies(subject, gold), _shown_to_all(subject)))
    if len(found) < FEWEST_TASKS or len(found) <= MOST * len(gold):
        return
    reply, names = found[0]
    prompt = "\n".join(text_of(message) for message in reply.task.prompt)
    quoted = ", ".join(f'"{name}"' for name in names)
    yield Found(
        f"nothing that the model is shown names {quoted}, which the reference reply to task {reply.task.index} uses "
        f"({len(found)} of {len(gold)} tasks)",
        replace(
            of_conversation(subject.facts, reply.score),
            count=len(found),
            of=len(gold),
            details={"names": names, "prompt": shortened(prompt, REPLY_LIMIT)},
        ),
    )
