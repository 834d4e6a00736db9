"""A perfect player: works backwards from the statement to the facts, and never looks at the answer."""

import re
from collections.abc import Mapping, Sequence
from typing import Any


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    prompt = messages[-1]["content"]
    facts = set(re.findall(r"^\w+ is (\w+)\.$", prompt, re.MULTILINE))
    reasons = {
        conclusion: conditions.split(" and ")
        for conditions, conclusion in re.findall(r"^Whoever is ([\w ]+) is (\w+)\.$", prompt, re.MULTILINE)
    }

    def holds(quality: str) -> bool:
        return quality in facts or (quality in reasons and all(map(holds, reasons[quality])))

    statement = re.search(r"True or false: \w+ is (\w+)\?", prompt)[1]
    return f"Going back from {statement}.\n<answer>{str(holds(statement)).lower()}</answer>"
