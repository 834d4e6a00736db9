"""An oracle and cases to complete, for an environment whose perfect replies cannot be derived."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from envwright_worker.author_tests import CASES_FILE, ORACLE_FILE
from envwright_worker.policies.baselines import oracle

from envwright.facts.observed import Facts, Task
from envwright.rules.suggested_code import oracle_skeleton
from envwright.text.visible_text import visible

MOST_FIELDS = 12
LONGEST_VALUE = 60
LONGEST_PROMPT_LINE = 96

_ORACLE = '''\
"""The replies of a perfect model, for the gates: to complete.

A function returns text, or an assistant message with tool_calls. `None` means that the reply is not known: the gates
then run the checks that need no reference reply, and stay inconclusive. While every function only returns `None`,
replies are derived from the tasks, as without this file.

{about}
"""


{functions}
'''
_REPLY = """\
def reply(task, messages):
    return None"""
_CASES = """\
# Reward unit tests: a reply and the reward that it must earn. Uncomment, and write right replies for a task.
# `envwright rewards reply NAME TEXT --task N` shows what a reply earns.
#
# - name: a right reply earns everything
#   task: {task}
#   reply: "…"
#   expect: {{reward: 1.0}}
# - name: a plausible wrong reply earns nothing
#   task: {task}
#   reply: "…"
#   expect: {{reward: 0.0}}
"""


def lacks_reference(facts: Facts) -> bool:
    """Whether tasks were read and no derived reference reply earned anything."""
    replies = [score for score in facts.scores if score.policy == oracle.name]
    was_tried = "rewards" in facts.completed and bool(facts.tasks)
    return was_tried and not any(score.reward is not None and score.reward > 0 for score in replies)


def skeletons(facts: Facts, files: frozenset[str]) -> dict[str, str]:
    """The files to complete, of those that the package does not have; none if a reference reply is known."""
    if ORACLE_FILE in files or not lacks_reference(facts):
        return {}
    task = facts.tasks[0]
    functions = oracle_skeleton(facts, unknown=True) or _REPLY  # for each agent without one
    rendered = {
        ORACLE_FILE: _ORACLE.format(about=_about(facts, task), functions=functions),
        CASES_FILE: _CASES.format(task=task.index),
    }
    return {file: text for file, text in rendered.items() if file not in files}


def _about(facts: Facts, task: Task) -> str:
    """Details for the author: the fields of a task, its prompt, the tools."""
    rows = [f"Task {task.index} has these fields:", "", *_fields(task.data)]
    if prompt := _prompt(task):
        rows += ["", f"Its prompt ends with: {prompt}"]
    tools = facts.description.tools if facts.description else ()
    if tools:
        rows += ["", f"Tools: {', '.join(tools)}"]
    return visible("\n".join(rows)).replace("\\", "\\\\").replace('"""', "'''")


def _fields(data: Mapping[str, Any]) -> list[str]:
    rows = [f"    {key}: {_value(value)}" for key, value in list(data.items())[:MOST_FIELDS]]
    left = len(data) - len(rows)
    return [*rows, *([f"    … and {left} more"] if left > 0 else [])] or ["    (none)"]


def _value(value: Any) -> str:
    text = " ".join(json.dumps(value, ensure_ascii=False, default=str).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _prompt(task: Task) -> str:
    texts = [message.get("content") for message in task.prompt if message.get("role") == "user"]
    lines = [line.strip() for line in str(texts[-1] if texts else "").splitlines() if line.strip()]
    return lines[-1][:LONGEST_PROMPT_LINE] if lines else ""
