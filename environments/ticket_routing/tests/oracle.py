"""A perfect player: knows what each message is about, reads the rules and takes the first that fits."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

# A word that only messages about the topic have.
ABOUT = {
    "double charges": r"invoice|twice|billed",
    "lost passwords": r"reset|forgot|credentials",
    "crashes": r"closes|freezes|white page",
    "data exports": r"spreadsheet|one file|archive",
    "suspicious messages": r"my code|logo|country",
    "new features": r"calendar|theme|colour",
}


def fits(rule: str, plan: str, seats: int, message: str) -> bool:
    about, wanted = re.search(r"about ([\w ]+?)(?: from| go)", rule), re.search(r"the (\w+) plan", rule)
    more, fewer = re.search(r"more than (\d+)", rule), re.search(r"fewer than (\d+)", rule)
    return (
        (about is None or bool(re.search(ABOUT[about[1]], message)))
        and (wanted is None or wanted[1] == plan)
        and (more is None or seats > int(more[1]))
        and (fewer is None or seats < int(fewer[1]))
    )


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    prompt = messages[-1]["content"]
    (default,) = re.findall(r"no rule fits goes to (\w+)\.", prompt)
    ((plan, seats, message),) = re.findall(r"Customer: (\w+) plan, (\d+) seats\nMessage: (.+)", prompt)
    rules = re.findall(r"^Rule \d: (.+) go to (\w+)\.$", prompt, re.MULTILINE)
    chosen = next((queue for rule, queue in rules if fits(f"{rule} go", plan, int(seats), message)), default)
    return f"Going through the rules in order.\n<queue>{chosen}</queue>"
