"""What was ordered? Mails made up from a seed, answered with a JSON object."""

import json
import re
from itertools import islice
from typing import Any

import verifiers.v1 as vf
from pydantic import PositiveInt

from order_form.mails import mails

PROMPT = """Read the order in this mail. Later sentences correct earlier ones.

---
{mail}
---

Write it as a JSON object in <answer>…</answer>, with these keys:
"customer": the firm, "city": where to, "express": true or false, "items": product → number, as in {{"mugs": 3}}"""

TAG = re.compile(r"</?(?:think|answer)>")


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; one that names a key twice would leave open which of the two is meant."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands there twice")
    return dict(pairs)


def final_object(reply: str) -> dict[str, Any] | None:
    """The JSON object in the one `<answer>` tag after any thinking; None if anything else is there."""
    final = reply.partition("</think>")[2] or reply
    if TAG.findall(final) != ["<answer>", "</answer>"]:
        return None
    try:
        value = json.loads(TAG.split(final)[1], object_pairs_hook=each_key_once)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def canonical(value: Any) -> str:
    """Equal values and types in one spelling: Python itself takes true for 1 and 3.0 for 3."""
    return json.dumps(value, sort_keys=True)


class OrderFormConfig(vf.TasksetConfig):
    num_tasks: PositiveInt = 200
    """How many mails to make up."""
    seed: int = 0
    """Which mails: the same seed makes up the same ones."""


class OrderFormData(vf.TaskData):
    answer: dict[str, Any]
    """The order."""


class OrderForm(vf.Task[OrderFormData]):
    @vf.reward(weight=1.0)
    async def correct_order(self, trace: vf.Trace) -> float:
        """Whether the object is the order, key by key and value by value."""
        return float(canonical(final_object(trace.last_reply)) == canonical(self.data.answer))

    @vf.metric
    async def right_keys(self, trace: vf.Trace) -> float:
        """The share of the order's keys whose value is right: where a model is on its way."""
        given = final_object(trace.last_reply) or {}
        right = [canonical(given.get(key)) == canonical(value) for key, value in self.data.answer.items()]
        return sum(right) / len(right)

    @vf.metric
    async def answer_format(self, trace: vf.Trace) -> float:
        """Whether there is one JSON object, right or wrong."""
        return float(final_object(trace.last_reply) is not None)


class OrderFormTaskset(vf.Taskset[OrderForm, OrderFormConfig]):
    def load(self) -> list[OrderForm]:
        return [
            OrderForm(OrderFormData(prompt=PROMPT.format(mail=mail.text), answer=mail.order), self.config.task)
            for mail in islice(mails(self.config.seed), self.config.num_tasks)
        ]
