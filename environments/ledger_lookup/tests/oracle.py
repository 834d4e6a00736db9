"""A perfect player: finds the accounts it was asked about, reads their entries and works out the amount."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any


def call(messages: Sequence[Mapping[str, Any]], tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": f"ledger_{tool}", "arguments": json.dumps(arguments)}
    call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str | dict[str, Any]:
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    ((company, first, second),) = re.findall(
        r"books of ([\w ]+)\..* the (\w+) account(?: than that of (\w+))?\?", prompt
    )
    results = [message["content"] for message in messages if message["role"] == "tool"]

    if not results:
        return call(messages, "list_accounts", company=company)
    accounts = {name: int(number) for number, name in (line.split(", ") for line in results[0].splitlines())}
    wanted = [accounts[name] for name in (first, second) if name]
    if len(results) <= len(wanted):
        return call(messages, "list_entries", company=company, account=wanted[len(results) - 1])

    entries = [[line.split(", ") for line in result.splitlines()] for result in results[1 : len(wanted) + 1]]
    supplier = re.search(r"paid to (\w+)", prompt)
    amounts = [int(amount) for _, to, amount in entries[0] if supplier is None or to == supplier[1]]
    if "largest amount" in prompt:
        return f"<answer>{max(amounts)}</answer>"
    if len(results) == len(wanted) + 1:
        subtracted = [-int(amount) for other in entries[1:] for _, _, amount in other]
        return call(messages, "add", amounts=amounts + subtracted)
    return f"<answer>{results[-1]}</answer>"
